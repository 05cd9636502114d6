"""The OpenAPI document: FastAPI's, with the errors as they really are."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.api.idempotency import HEADER, LONGEST
from app.api.schemas.common import Problem
from app.responses import PROBLEM_JSON

METHODS = ("get", "head", "post", "put", "patch", "delete")
REFERENCE = {"$ref": "#/components/schemas/Problem"}
UNUSED = ("HTTPValidationError", "ValidationError")

KEY = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Any text of your own: a request repeated with its key is answered as the first one was.",
    "schema": {"type": "string", "minLength": 1, "maxLength": LONGEST},
}


def document(app: FastAPI) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            tags=app.openapi_tags,
            routes=app.routes,
        )
        schemas = made["components"]["schemas"]
        schemas |= nested(Problem.model_json_schema(ref_template="#/components/schemas/{model}"))
        for name in UNUSED:
            schemas.pop(name, None)
        for calls in made["paths"].values():
            for method in METHODS:
                if method in calls:
                    complete(method, calls[method])
        app.openapi_schema = made
    return app.openapi_schema


def nested(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema and the ones inside it by name."""
    inside: dict[str, Any] = schema.pop("$defs", {})
    return {schema["title"]: schema, **inside}


def complete(method: str, call: dict[str, Any]) -> None:
    """Every call may be refused; every POST takes a key."""
    problem = {"content": {PROBLEM_JSON: {"schema": REFERENCE}}}
    answers = call["responses"]
    stream = answers.get("200", {}).get("content", {}).get("text/event-stream")
    if stream is not None:
        stream.setdefault("schema", {"type": "string"})  # for generators that do not know `itemSchema`
    if "HTTPValidationError" in str(answers.get("422")):
        del answers["422"]
    answers["4XX"] = {"description": "Refused; `detail` says what to do.", **problem}
    answers["5XX"] = {"description": "Not answered.", **problem}
    for status, answer in answers.items():
        if status.startswith("4") and (body := answer["content"].pop("application/json", None)):
            # A refusal that says more: plain problem details are told apart by what they lack.
            answer["content"] = {PROBLEM_JSON: {"schema": {"anyOf": [body["schema"], REFERENCE]}}}
    summarise(call)
    if method == "post":
        call.setdefault("parameters", []).append(KEY)


def summarise(call: dict[str, Any]) -> None:
    """The first sentence of the endpoint's docstring is its summary, the rest its description."""
    text: str = call.pop("description", call["summary"])
    sentence = text.split("\n\n")[0].split(". ")[0]
    call["summary"] = " ".join(sentence.split()).removesuffix(".")
    if rest := text[len(sentence) :].lstrip(". \n"):
        call["description"] = rest
