"""Cases: numbers that the frameworks' own code produced, each as a file of canonical rows and a request.

    case = load(path)
    rows, body = rows_of(case)  # upload the rows, post the body: it gives `requests_of(case)[0].advantages`

One file per framework in `groups` and `tokens` says how the rows of its functions are made.
"""

from dataclasses import replace

from tests.cases import groups, tokens
from tests.cases.build import Built, Case, load, paths

__all__ = ["BUILDERS", "Built", "Case", "load", "paths", "requests_of", "rows_of"]

#: Name of the framework's function -> how its inputs become rows and a request.
BUILDERS = {**groups.BUILDERS, **tokens.BUILDERS}


def requests_of(case: Case) -> list[Built]:
    """Rows, request and what to expect. Cases in single precision are asked for in single precision."""
    made = BUILDERS[case["function"]](case)
    precision = "float32" if case["dtype"].split(" ")[0] == "float32" else "float64"
    return [
        replace(each, body={"precision": precision, **each.body})
        for each in (made if isinstance(made, list) else [made])
    ]


def rows_of(case: Case) -> tuple[list[dict[str, object]], dict[str, object]]:
    """Canonical rows, one per rollout, and the body of the estimate to ask for."""
    made = requests_of(case)[0]
    return made.rows, made.body
