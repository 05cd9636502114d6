"""open-instruct's data preparation: groups are runs of neighbouring rows."""

from tests.cases.build import Builder, Built, Case, lone_tokens, rows_from


def data_preparation(case: Case) -> Built:
    scores, config = case["inputs"]["scores"], case["config"]
    rows = rows_from(lone_tokens(len(scores)), None, reward=scores)
    centred = config["advantage_normalization_type"] == "centered"
    name = "dr_grpo/open-instruct" if centred else "grpo/open-instruct"
    body = {"convention": name, "params": dict(config)}
    return Built(rows, body, case["expected"].get("advantages"))


BUILDERS: dict[str, Builder] = {"open_instruct.data_loader (data preparation)": data_preparation}
