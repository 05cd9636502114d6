"""Damage inside of containers: members, columns and rows exchanged, so that it gets past checksums."""

import gzip
import io
import random
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import zstandard

Damage = Callable[[bytes, random.Random], bytes]

TRICKS = (
    "../../outside.jsonl", "/etc/outside.jsonl", "a/../../b.jsonl", "C:\\x.jsonl", "", ".", "a/", "\0.jsonl",
    "x" * 300 + ".jsonl", "ä\u202e.jsonl", "__MACOSX/._a.jsonl", "a.jsonl", "data.pkl", "archive/data.pkl",
)  # fmt: skip
BOMB = 17 << 20
ZSTD = 93


def repacked(data: bytes, damage: Damage, source: random.Random) -> bytes | None:
    """The file unpacked, damaged inside and packed again; None where it is not packed."""
    if data.startswith(b"PK\x03\x04"):
        return _zip(data, damage, source)
    if data.startswith(b"\x1f\x8b"):
        return gzip.compress(damage(gzip.decompress(data), source), 1, mtime=0)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        inner = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        return zstandard.compress(damage(inner, source), 1)
    return None


def _zip(data: bytes, damage: Damage, source: random.Random) -> bytes:
    """One member damaged, renamed, lost, doubled, swapped with another, or joined by a trick."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = [info for info in archive.infolist() if info.file_size < 1 << 20]
        members = [
            (info.filename, _zstd_member(data, info) if info.compress_type == ZSTD else archive.read(info))
            for info in infos
        ]
    if not members:
        return data
    at, other = source.randrange(len(members)), source.randrange(len(members))
    name, content = members[at]
    match source.randrange(9):
        case 0:
            members[at] = (source.choice(TRICKS), content)
        case 1:
            del members[at]
        case 2:
            members.append((name, damage(content, source)))
        case 3:
            members[at], members[other] = (name, members[other][1]), (members[other][0], content)
        case _:
            members[at] = (name, damage(content, source))
    return zipped(members, source)


def _zstd_member(data: bytes, info: zipfile.ZipInfo) -> bytes:
    """What zipfile does not unpack: behind the member's own header, with its name and extra."""
    name, extra = struct.unpack_from("<HH", data, info.header_offset + 26)
    start = info.header_offset + 30 + name + extra
    return zstandard.ZstdDecompressor().decompressobj().decompress(data[start : start + info.compress_size])


def zipped(members: list[tuple[str, bytes]], source: random.Random) -> bytes:
    """A zip archive whose bytes depend on nothing else."""
    out = io.BytesIO()
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    kind = source.choice(kinds if sum(len(content) for _, content in members) < 1 << 20 else kinds[1:2])
    with zipfile.ZipFile(out, "w", kind) as archive:
        seen: set[str] = set()
        for name, content in members:
            info = zipfile.ZipInfo(name or "empty")
            info.compress_type = kind
            if info.filename not in seen:  # zipfile warns of names that are there twice
                seen.add(info.filename)
                archive.writestr(info, content)
    return out.getvalue()


def wrapped(data: bytes, source: random.Random) -> bytes:
    """The file inside of one to five archives or compressed streams, with a trick for a name."""
    for _ in range(source.choice((1, 1, 2, 3, 5))):
        name = source.choice((*TRICKS, "rows.jsonl", "rows.jsonl", "rows.jsonl"))
        match source.randrange(5):
            case 0:
                data = gzip.compress(data, 1, mtime=0)
            case 1:
                data = zstandard.compress(data, 1)
            case 2:
                data = _tar(data, name, source)
            case 3 if not source.randrange(3):
                data = zipped([(name, data), ("bomb.jsonl", b"{}\n" * (BOMB // 3))], source)
            case _:
                data = zipped([(name, data), ("second.jsonl", data[:2000])], source)
    return data


def _tar(data: bytes, name: str, source: random.Random) -> bytes:
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=source.choice((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))
    ) as tar:
        info = tarfile.TarInfo(name.replace("\0", "") or "empty")
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("link.jsonl")
        link.type = source.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE))
        link.linkname = source.choice(("/etc/passwd", "../../x", info.name, "link.jsonl"))
        tar.addfile(link)
    return out.getvalue()


def tables(data: bytes, source: random.Random) -> bytes | None:
    """A Parquet or Arrow file with columns swapped, lost, of another type, or other rows; None for others."""
    try:
        if data.startswith(b"PAR1"):
            out = io.BytesIO()
            changed = _columns(pq.read_table(io.BytesIO(data)).slice(0, 2000), source)
            size = source.choice((1, 3, 1000))
            pq.write_table(
                changed, out, row_group_size=size, compression=source.choice(("none", "zstd", "snappy"))
            )
            return out.getvalue()
        if data.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
            changed = _columns(_arrow(data), source)
            sink = pa.BufferOutputStream()
            make = source.choice((pyarrow.ipc.new_stream, pyarrow.ipc.new_file))
            with make(sink, changed.schema) as writer:
                writer.write_table(changed, max_chunksize=source.choice((1, 1000)))
            return bytes(sink.getvalue())
    except (pa.ArrowException, OSError):
        pass
    return None


def _arrow(data: bytes) -> pa.Table:
    if data.startswith(b"ARROW1"):
        return pyarrow.ipc.open_file(pa.BufferReader(data)).read_all()
    return pyarrow.ipc.open_stream(pa.BufferReader(data)).read_all()


def _columns(table: pa.Table, source: random.Random) -> pa.Table:
    names, at = list(table.column_names), source.randrange(table.num_columns)
    count = table.num_rows
    match source.randrange(8):
        case 0:
            source.shuffle(names)
            return table.rename_columns(names)
        case 1:
            return table.remove_column(at)
        case 2:
            return table.slice(source.randrange(count + 1), source.randrange(count + 1))
        case 3:
            return table.append_column(names[source.randrange(len(names))], table.column(at))
        case 4:
            return pa.concat_tables([table, table.slice(0, 3)])
    odd: tuple[list[Any], ...] = (
        [None] * count, [[None, 1.5]] * count, [[]] * count, ["NaN"] * count, [b"\xff\xfe"] * count,
        [2**62] * count, [float("nan")] * count, [{"a": [1]}] * count, [True] * count, [[["x"]]] * count,
        ["\0"] * count,
    )  # fmt: skip
    kinds = [pa.array(values) for values in odd]
    kinds += [
        pa.array([1] * count, kind) for kind in (pa.float16(), pa.timestamp("us"), pa.decimal128(38, 9))
    ]
    column = source.choice(kinds)
    return table.set_column(at, names[at], column)


def database(data: bytes, source: random.Random, folder: Path) -> bytes | None:
    """An SQLite file with odd values, tables or columns; None for others."""
    if not data.startswith(b"SQLite format 3\0"):
        return None
    path = folder / "mutated.db"
    path.write_bytes(data)
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type='table'")]
        for _ in range(source.randint(1, 3)):
            table = source.choice(sorted(tables))
            columns = [row[1] for row in connection.execute(f'pragma table_info("{table}")')]
            column = source.choice(columns or ["x"])
            value = source.choice(
                ("null", "x'ff00'", "'[1'", "-1", "9e999", "9223372036854775807", "''", "'{}'")
            )
            connection.execute(
                source.choice(
                    (
                        f'update "{table}" set "{column}" = {value}',
                        f'update "{table}" set "{column}" = {value} where rowid % 3 = 1',
                        f'alter table "{table}" rename column "{column}" to "y{source.randrange(99)}"',
                        f'delete from "{table}" where rowid > 2',
                    )
                )
            )
    except sqlite3.Error:
        pass
    finally:
        connection.close()
    return path.read_bytes()
