"""Where estimates run."""

import torch

from app.errors import BadRequest


def pick_device(wanted: str) -> str:
    """The torch device for a setting: "auto" takes an accelerator where there is one, else the CPU.

    Raises BadRequest where the device is not there.
    """
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    if kind == "cpu" and not number:
        return wanted
    if kind == "mps" and not number and torch.backends.mps.is_available():
        return wanted
    if kind == "cuda" and torch.cuda.is_available():
        numbers = [str(number) for number in range(torch.cuda.device_count())]
        if wanted == "cuda" or number in numbers:
            return wanted
    raise BadRequest(
        f"The device {wanted!r} is not there. Use auto, cpu, cuda, cuda:K or mps (VANTAGE_DEVICE)."
    )


def one_thread() -> None:
    """Let every request compute on its own thread: what pages and figures compute takes a millisecond or two,
    and threads that wait for each other take tens of them where the machine is busy."""
    torch.set_num_threads(1)
