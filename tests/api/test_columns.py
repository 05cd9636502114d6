"""Tables over REST: guesses, choices, refusals that say what to do, and what is remembered."""

from typing import Any

from tests.api.conftest import Service, refused
from tests.ingest.reading import SAMPLES

TABLE = b"question;answer_text;mark\n" + b"".join(b"q%d;text %d;%d\n" % (n // 2, n, n % 2) for n in range(8))
EXPORT = (SAMPLES / "broken" / "spreadsheet_export.csv").read_bytes()


def failed(service: Service, content: bytes, **query: Any) -> dict[str, Any]:
    answer = service.post("/uploads", content=content, params={"filename": "t.csv", **query})
    service.work()
    receipt: dict[str, Any] = service.get(f"/uploads/{answer.json()['id']}")
    assert receipt["state"] == "failed", receipt
    return receipt


def test_a_table_without_a_known_response_says_its_columns_and_the_remedy(service: Service) -> None:
    receipt = failed(service, TABLE)
    assert "question, answer_text, mark" in receipt["error"]
    assert "column.response=<column>" in receipt["error"]
    seen = service.get(f"/uploads/{receipt['id']}/columns")
    assert seen["question"] == "Which column is the response?"
    assert [column["name"] for column in seen["columns"]] == ["question", "answer_text", "mark"]
    assert [column["holds"] for column in seen["columns"]] == ["texts", "texts", "numbers"]
    assert seen["columns"][1]["cells"] == [f"text {n}" for n in range(5)]
    assert (seen["fields"], seen["written"]) == ({"prompt": "question"}, "a CSV separated by semicolons")


def test_columns_that_are_said_make_a_batch_and_are_remembered(service: Service) -> None:
    said = {"column.response": "answer_text", "column.reward": "mark", "group_by": "question"}
    receipt = service.upload(TABLE, filename="t.csv", run="r", **said)
    assert (receipt["format"], receipt["counts"]["accepted"]) == ("table", 8)
    assert (receipt["batches"][0]["rollouts"], receipt["batches"][0]["groups"]) == (8, 4)
    rows = service.get(f"/batches/{receipt['batches'][0]['id']}/rollouts")["items"]
    assert [row["reward"] for row in rows] == [0.0, 1.0] * 4
    kept = service.get("/column-mappings")["items"][0]
    assert kept["mapping"] == {"response": "answer_text", "reward": "mark", "prompt": "question"}
    assert kept["group_by"] == "question"
    later = service.upload(TABLE.replace(b"text ", b"other "), filename="u.csv", run="r")
    assert (later["format"], later["batches"][0]["groups"]) == ("table", 4)
    assert any("as remembered: " in problem["message"] for problem in later["problems"])
    assert service.client.delete(f"/api/v1/column-mappings/{kept['shape']}").status_code == 204
    refused(service.client.delete(f"/api/v1/column-mappings/{kept['shape']}"), 404, "no mapping")
    assert "column.response" in failed(service, TABLE.replace(b"text ", b"third "))["error"]


def test_the_spreadsheet_is_read_once_somebody_confirms(service: Service) -> None:
    receipt = failed(service, EXPORT)
    assert "decimal=comma" in receipt["error"]
    assert receipt["problem_counts"] == {"decimal_comma": 1}
    answer = service.post(f"/uploads/{receipt['id']}/again", params={"decimal": "comma"})
    assert answer.status_code == 202, answer.text
    service.work()
    again = service.get(f"/uploads/{answer.json()['id']}")
    assert (again["state"], again["counts"]["accepted"]) == ("succeeded", 8)
    assert again["problem_counts"]["ambiguous_list"] == 2
    rows = service.get(f"/batches/{again['batches'][0]['id']}/rollouts")["items"]
    assert rows[0]["reward"] == 1.1


def test_reading_again_may_replace_what_was_made(service: Service) -> None:
    table = b"prompt,response,reward,better\np,a,0,1\np,b,1,0\n"
    first = service.upload(table, filename="t.csv", run="r")
    params = {"column.reward": "better", "replace": "true"}
    answer = service.post(f"/uploads/{first['id']}/again", params=params)
    service.work()
    again = service.get(f"/uploads/{answer.json()['id']}")
    assert again["state"] == "succeeded"
    batches = service.get("/batches")["items"]
    assert [batch["id"] for batch in batches] == [again["batches"][0]["id"]]
    rows = service.get(f"/batches/{batches[0]['id']}/rollouts")["items"]
    assert [row["reward"] for row in rows] == [1.0, 0.0]
    files = list(service.place.settings.spool_dir.iterdir())
    assert len(files) == 2
    refused(service.post("/uploads/nobody/again"), 404, "no upload")
    for file in files:
        file.unlink()
    refused(service.post(f"/uploads/{first['id']}/again", params={"step": 3}), 409, "VANTAGE_SPOOL_DAYS")
    refused(service.client.get(f"/api/v1/uploads/{first['id']}/columns"), 409, "Upload it again")


def test_what_is_no_table_has_no_columns(service: Service) -> None:
    receipt = failed(service, b"once upon a time\n")
    refused(service.client.get(f"/api/v1/uploads/{receipt['id']}/columns"), 404, "No file of this upload")
    refused(service.client.get("/api/v1/uploads/nobody/columns"), 404, "no upload")


def test_a_form_may_say_columns_too(service: Service) -> None:
    files = {"file": ("t.csv", TABLE)}
    data = {"column.response": "answer_text", "column.prompt": "", "run": "r"}
    answer = service.post("/uploads", files=files, data=data)
    service.work()
    receipt = service.get(f"/uploads/{answer.json()['id']}")
    assert receipt["request"]["columns"] == {"response": "answer_text", "prompt": ""}
    assert receipt["state"] == "succeeded"
    fields = service.get(f"/batches/{receipt['batches'][0]['id']}")["fields"]
    assert fields["prompt"] == "absent"
