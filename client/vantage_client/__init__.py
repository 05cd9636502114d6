"""The trainer's side of Vantage: record rollouts while training, read numbers back into a notebook."""

from vantage_client.reading import Client, Table, get
from vantage_client.recorder import Recorder, Stats

__version__ = "0.1.0"
__all__ = ["Client", "Recorder", "Stats", "Table", "get"]
