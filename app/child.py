"""The worker that `serve` supervises: python -m app.child EXECUTOR PARENT_PID. Settings: environment."""

import sys

from app.jobs import KINDS
from app.logs import configure
from app.settings import Settings
from app.supervisor import die_with_parent
from app.worker import run


def main(executor: str, parent: int) -> None:
    configure("worker")
    die_with_parent(parent)
    run(Settings(), KINDS, executor, parent)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
