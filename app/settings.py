"""One frozen `Settings`, made at start and passed in. Each field is an environment variable VANTAGE_<NAME>"""

from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parent.parent


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="VANTAGE_", frozen=True, extra="ignore")

    data_dir: Path = Field(
        default=Path("vantage-data"), description="Folder for the embedded database and uploaded files."
    )
    database_url: str | None = Field(
        default=None,
        description="sqlite:///path or postgresql://…; default is vantage.db in the data folder.",
    )
    host: str = Field(default="127.0.0.1", description="Address that the server binds.")
    port: int = Field(default=8000, description="Port that the server binds; 0 takes a free one.")
    insecure: bool = Field(
        default=False, description="Allow another address than loopback although there are no accounts."
    )
    allowed_hosts: tuple[str, ...] = Field(
        default=(), description="Further host names that requests may carry."
    )
    device: str = Field(default="auto", description="Where estimates run: auto, cpu, cuda, cuda:K or mps.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="The least severe lines that are logged; the demo says WARNING itself."
    )
    worker_concurrency: int = Field(default=2, description="Jobs of one queue that a worker runs at once.")
    heartbeat_seconds: float = Field(default=5.0, description="How often a worker says that it lives.")
    dead_after_seconds: float = Field(
        default=30.0, description="Silence after which a worker's jobs go to another."
    )
    max_attempts: int = Field(
        default=3, description="How often a job may be begun before it is called failed."
    )
    max_upload_bytes: int = Field(default=8 << 30, description="Largest upload, in bytes as sent.")
    transfer_hours: float = Field(
        default=48.0,
        description="How long an upload that comes in pieces is kept after its last byte, in hours.",
    )
    transfer_stall_seconds: float = Field(
        default=20.0,
        description="Silence in the middle of a piece of an upload after which another may be sent.",
    )
    max_body_bytes: int = Field(
        default=1 << 20, description="Largest body of a request that is not an upload, in bytes."
    )
    max_tokenizer_bytes: int = Field(default=64 << 20, description="Largest tokenizer.json, in bytes.")
    max_expanded_bytes: int = Field(
        default=32 << 30, description="Largest upload after decompression, in bytes."
    )
    max_expansion_ratio: int = Field(
        default=200, description="Largest decompressed size over compressed size."
    )
    max_rows: int = Field(default=1_000_000, description="Most rows of one upload.")
    max_batches: int = Field(default=5_000, description="Most batches (run, step and split) of one upload.")
    max_fields: int = Field(default=10_000, description="Most fields of one row that have no known name.")
    max_line_bytes: int = Field(default=256 << 20, description="Longest line of a JSONL file, in bytes.")
    max_depth: int = Field(default=64, description="Deepest nesting of a JSON row.")
    max_tokens_per_rollout: int = Field(default=4_194_304, description="Most tokens of one response.")
    pickle_memory_bytes: int = Field(
        default=8 << 30,
        description="Most memory of the process that reads pickles and PyTorch files, in bytes.",
    )
    pickle_seconds: float = Field(
        default=600.0, description="Most time that reading one pickle or PyTorch file may take, in seconds."
    )
    buffer_bytes: int = Field(
        default=64 << 20, description="Memory for rollouts that wait for their group, in bytes."
    )
    chunk_bytes: int = Field(
        default=4 << 20, description="Size of what one transaction of a job stores, in bytes."
    )
    cache_bytes: int = Field(
        default=128 << 20, description="Memory for batches that a worker keeps on its device, in bytes."
    )
    spool_days: float = Field(default=7.0, description="How long an uploaded file is kept after it was read.")
    job_days: float = Field(
        default=7.0, description="How long records of finished jobs and Idempotency-Keys are kept."
    )
    share_hours: float = Field(
        default=168.0, description="Life of a share link unless said otherwise, in hours."
    )

    @property
    def url(self) -> str:
        """The database URL in use."""
        return self.database_url or f"sqlite:///{self.data_dir.resolve() / 'vantage.db'}"

    @property
    def open_to_all(self) -> bool:
        """Whether people on other machines reach the server although there are no accounts."""
        return self.insecure and not is_loopback(self.host)

    @property
    def spool_dir(self) -> Path:
        return self.data_dir / "spool"
