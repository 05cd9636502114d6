"""The worker that `serve` supervises: python -m app.child EXECUTOR PARENT_PID. Settings: environment."""

import sys

from app.jobs import KINDS
from app.logs import configure
from app.settings import Settings
from app.supervisor import die_with_parent
from app.worker import run


def main(executor: str, parent: int) -> None:
    settings = Settings()
    configure("worker", settings.log_level)
    die_with_parent(parent)
    run(settings, KINDS, executor, parent)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
