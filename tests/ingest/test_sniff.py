"""A sample of a format that is read is claimed by that format alone; every other file by none, and named."""

from pathlib import Path

import pytest

from app.ingest import FORMATS, File, Format, Problem, Source, detect, unwrap
from app.settings import Settings
from tests.ingest.reading import SAMPLES, read_rows
from tests.ingest.test_broken import LOADED, TOO_LARGE
from tests.ingest.test_formats import SAMPLE_ROWS
from tests.ingest.test_samples import EXPECTED

READ = {name: format for name, format, *_ in EXPECTED} | {
    f"broken/{name}": "saved-tensors" if name.endswith(".pt") else "canonical-jsonl" for name in LOADED
}
#: Files that go with others, and what claims them.
COMPANIONS = {
    "prime_rl/token_exports/step_5/STABLE": "prime-rl-marker",
    "verifiers/legacy_evals/toy-math--toy-0.1b/a1b2c3d4/metadata.json": "verifiers-metadata",
    "open_instruct/toy_grpo__1__1764400000_metadata.jsonl": "open-instruct-metadata",
    "skyrl/dumped_evals/global_step_5_evals/aggregated_results.jsonl": "skyrl-metrics",
    "verl/rollout_dump/demo_proj/GBS4_N4_in64_out64/4/meta.json": "verl-meta",
    "verl/rollout_dump_v1/4/0/meta.json": "verl-meta",
    "hf_datasets_save_to_disk/state.json": "datasets-metadata",
    "hf_datasets_save_to_disk/dataset_info.json": "datasets-metadata",
    "rllm/logs/demo/toy/episodes/train_step_5_epoch_0/batch_summary.json": "rllm-summary",
    "tinker_cookbook/log/iteration_000005/train_logtree.json": "tinker-logtree",
}


def expected_claim(name: str) -> str | None:
    """The one format that reads this sample."""
    part = name.endswith(".memmap") or (name.startswith("torchrl_nested/") and name.count("/") > 1)
    exact = "tensordict-part" if part else COMPANIONS.get(name) or READ.get(name) or CLAIMED.get(name)
    within = (row[0] for part, row in SAMPLE_ROWS.items() if name == part or name.startswith(f"{part}/"))
    return exact or next(within, None)


#: Containers whose reader says what is wrong, because the container itself is right (or named right).
CLAIMED = {
    "broken/spreadsheet_export.csv": "table",
    "broken/wrong_dtype.npz": "canonical-npz",
    "broken/no_lengths.safetensors": "canonical-safetensors",
    "broken/bad_header.safetensors": "canonical-safetensors",
}
FILES = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name not in TOO_LARGE)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_exactly_one_format_claims_what_is_read_and_none_the_rest(path: Path) -> None:
    name = str(path.relative_to(SAMPLES))
    settings = Settings()
    for source in unwrap(File(path, path.name), settings):
        assert isinstance(source, Source)
        found = [format for format in FORMATS if format.sniff(source, settings)]
        claims = [format.name for format in found if not format.fallback] or [f.name for f in found]
        expected = expected_claim(name)
        assert claims == ([] if expected is None else [expected])


def test_the_name_of_a_file_says_nothing(tmp_path: Path) -> None:
    for name in ("canonical/batch.npz", "canonical/batch.parquet", "verl/v0_rollout_data_dir/1.jsonl"):
        disguised = tmp_path / "rollouts.txt"
        disguised.write_bytes((SAMPLES / name).read_bytes())
        for source in unwrap(File(disguised, disguised.name), Settings()):
            assert isinstance(source, Source)
            found = detect(source, Settings())
            assert isinstance(found, Format)
            assert found.name == READ[name]


def test_logs_and_other_objects_may_stand_before_the_rows(tmp_path: Path) -> None:
    before = [*["step 1: loss 0.5"] * 300, {"event": "start"}, {"event": "go"}]
    outcome = read_rows(tmp_path, *before, {"response": "a", "reward": 1.0})
    assert [rollout.row for rollout in outcome.rollouts] == [303]
    assert len(outcome.errors) == 302
    outcome = read_rows(tmp_path, {"event": "start"}, {"input": "p", "output": "r", "score": 1.0})
    assert outcome.headers[0].format == "verl-jsonl"


def test_names_of_formats_are_unique_and_titled() -> None:
    assert len({format.name for format in FORMATS}) == len(FORMATS)
    assert all(format.title and format.groups in ("prompt", "adjacent") for format in FORMATS)


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"ARROW1\0\0", "Arrow IPC"),
        (b"\xff\xff\xff\xff\x10\0\0\0", "Arrow stream"),
        (b"\x93NUMPY\x01\0", "numpy.savez"),
        (b"SQLite format 3\0", "SQLite"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"\x89HDF\r\n", "HDF5"),
        (b"BZh9", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"%PDF-1.7", "PDF"),
        (b"\x7fELF", "program"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"\0\1\2\3\4\5\6\7" * 40, "binary file of unknown kind"),
        (b"PK\x03\x04" + b"\0" * 60, "ZIP archive is damaged"),
        (b"\x80\x04}q\0.", "pickle"),
        (b"cos\nsystem\n(S'true'\ntR.", "wants to call os.system"),
        (b'{"response": "a', "no row is whole"),
        (b"[1, 2, 3]\n", "no row of it can be read"),
        (b'{"a": 1}\n', "Columns seen (rows of JSON): a."),
        (b"a,b,c\n1,2,3\n", "Columns seen (a CSV separated by commas): a, b, c."),
        (b"a\tb\n1\t2\n", "separated by tabs"),
        (b'{"model": {}, "added_tokens": [],\n"version": "1"}', "tokenizer"),
        (b"<html><body>no title</body></html>", "title: none"),
        (b"\0" * 100, "only blank lines"),
    ],
)
def test_other_contents_are_named(begin: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(begin)
    (source,) = unwrap(File(path, "file"), Settings())
    assert isinstance(source, Source)
    found = detect(source, Settings())
    assert isinstance(found, Problem)
    assert found.severity == "error"
    assert part in found.message
