"""What each finding means, as its module says it: for the reference and for the page of findings."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.findings import FINDINGS
from app.findings.of_run import RUN_FINDINGS

#: The last paragraphs of a finding's module, by the word they begin with.
SECTIONS = ("Seen as", "Remedy", "Evidence")
#: Short names of the projects whose threads are cited.
PROJECTS = {
    "GDPO": "NVlabs/GDPO",
    "AReaL": "areal-project/AReaL",
    "ART": "OpenPipe/ART",
    "NeMo-RL": "NVIDIA-NeMo/RL",
    "OpenRLHF": "OpenRLHF/OpenRLHF",
    "SkyRL": "NovaSky-AI/SkyRL",
    "atropos": "NousResearch/atropos",
    "miles": "radixark/miles",
    "EasyR1": "hiyouga/EasyR1",
    "OpenClaw-RL": "Gen-Verse/OpenClaw-RL",
    "Trinity-RFT": "agentscope-ai/Trinity-RFT",
    "VLM-R1": "om-ai-lab/VLM-R1",
    "ZeroSearch": "Alibaba-NLP/ZeroSearch",
    "ms-swift": "modelscope/ms-swift",
    "open-instruct": "allenai/open-instruct",
    "open-r1": "huggingface/open-r1",
    "prime-rl": "PrimeIntellect-ai/prime-rl",
    "rllm": "rllm-org/rllm",
    "slime": "THUDM/slime",
    "trl": "huggingface/trl",
    "tunix": "google/tunix",
    "understand-r1-zero": "sail-sg/understand-r1-zero",
    "unsloth": "unslothai/unsloth",
    "verl": "verl-project/verl",
}
REFERENCE = re.compile(r"\b([A-Za-z][\w-]*)#(\d+)")


@dataclass(frozen=True, slots=True)
class Explained:
    """`meaning`: paragraphs and lists ("* …") as written; `seen`: the public symptom with its threads."""

    code: str
    title: str
    of_run: bool
    meaning: tuple[str, ...]
    seen: str
    remedy: str
    evidence: str


def explained() -> tuple[Explained, ...]:
    """Every finding of a batch, then every finding of a run, in the order of their registries."""
    of_batch = [_explain(f.code, f.title, f.check, False) for f in FINDINGS.values()]
    return (*of_batch, *(_explain(f.code, f.title, f.check, True) for f in RUN_FINDINGS.values()))


def link_of(name: str, number: str) -> str | None:
    """Where the cited thread is, as far as the project is known."""
    return f"https://github.com/{PROJECTS[name]}/issues/{number}" if name in PROJECTS else None


def _explain(code: str, title: str, check: Callable[..., Any], of_run: bool) -> Explained:
    module = inspect.getmodule(check)
    paragraphs = inspect.cleandoc((module.__doc__ if module else None) or "").split("\n\n")
    said = {name: "" for name in SECTIONS}
    meaning = []
    for paragraph in paragraphs:
        name, _, rest = paragraph.partition(": ")
        if name in said:
            said[name] = " ".join(rest.split())
        else:
            meaning.append(paragraph)
    return Explained(code, title, of_run, tuple(meaning), *(_sentence(said[name]) for name in SECTIONS))


def _sentence(text: str) -> str:
    """Begins like a sentence; a name in backquotes stays as it is."""
    return text[:1].upper() + text[1:]
