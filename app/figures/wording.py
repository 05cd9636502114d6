"""How captions name advantages and whitening settings: with ddof and eps wherever a std is in them."""

from typing import Any

from app.figures.chosen import Chosen

#: Parameters of estimators that are worth a word in a caption, and how they are written there.
SAID = {"gamma": "γ", "lam": "λ", "epsilon": "eps", "ddof": "ddof"}


def stated(chosen: Chosen) -> str:
    """The advantages with their parameters: "gae/verl (recomputed; γ 1, λ 0.95; whitened over batch, …)"."""
    request = chosen.request
    if not request:
        return chosen.label
    params = request.get("params") or {}
    said = [
        f"{word} {params[name]:g}" for name, word in SAID.items() if isinstance(params.get(name), int | float)
    ]
    whitening = request.get("whitening") or {}
    if whitening.get("scope", "none") != "none":
        said.append(f"whitened over {words(whitening['scope'])}, {setting(whitening)}")
    return chosen.label if not said else chosen.label.replace(")", f"; {', '.join(said)})")


def setting(whitening: dict[str, Any]) -> str:
    """`by token, ddof 1, eps 1e-08 under the root`"""
    placement = {
        "added": "added to the std",
        "under_root": "under the root",
        "floor": "as floor of the variance",
    }
    return (
        f"by {whitening.get('unit', 'token')}, ddof {whitening.get('ddof', 1)}, "
        f"eps {whitening.get('eps', 1e-8):g} {placement[whitening.get('eps_placement', 'under_root')]}"
    )


def words(scope: str) -> str:
    """A scope as text."""
    return {
        "data_source": "each data source",
        "group": "each group",
        "batch": "the batch",
        "rank": "each rank",
    }.get(scope, "the run so far" if scope == "running" else scope)
