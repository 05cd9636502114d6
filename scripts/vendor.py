"""Copies the third-party browser files into static/vendor/ and writes their manifest.

    npm install --ignore-scripts plotly.js-cartesian-dist-min@4.1.1 plotly.js@4.1.1 htmx.org@4.0.1
    python scripts/vendor.py node_modules

The copies are committed, so that neither an installation nor a page needs Node or another origin. Each entry
of the manifest has the version, the size, the SHA-384 (the `integrity` attribute of pages) and the licence.
"""

import base64
import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

TARGET = Path(__file__).resolve().parent.parent / "static" / "vendor"


class Wanted(NamedTuple):
    """One file of one package, and the name (without its version) that it gets here."""

    package: str
    path: str
    stem: str
    suffix: str
    licence: str


WANTED: dict[str, Wanted] = {
    "plotly": Wanted(
        "plotly.js-cartesian-dist-min", "plotly-cartesian.min.js", "plotly-cartesian", ".min.js", "MIT"
    ),
    "plotly_css": Wanted("plotly.js", "dist/plotly.css", "plotly", ".css", "MIT"),
    "htmx": Wanted("htmx.org", "dist/htmx.min.js", "htmx", ".min.js", "0BSD"),
}


def integrity(data: bytes) -> str:
    """The value of an `integrity` attribute for these bytes."""
    return "sha384-" + base64.b64encode(hashlib.sha384(data).digest()).decode()


def copy(modules: Path, wanted: Wanted) -> dict[str, str | int]:
    """Copies one file and its licence; returns its entry of the manifest."""
    package = modules / wanted.package
    version = json.loads((package / "package.json").read_text())["version"]
    data = (package / wanted.path).read_bytes()
    file = f"{wanted.stem}-{version}{wanted.suffix}"
    (TARGET / file).write_bytes(data)
    licence_file = f"LICENSE-{wanted.stem}.txt"
    shutil.copyfile(package / "LICENSE", TARGET / licence_file)
    return {
        "file": file,
        "package": wanted.package,
        "version": version,
        "sha384": integrity(data),
        "bytes": len(data),
        "licence": wanted.licence,
        "licence_file": licence_file,
    }


def main(modules: Path) -> None:
    """Replaces everything in static/vendor/ by what `modules` holds."""
    TARGET.mkdir(parents=True, exist_ok=True)
    for old in TARGET.iterdir():
        if old.is_file():
            old.unlink()
    manifest = {name: copy(modules, wanted) for name, wanted in WANTED.items()}
    (TARGET / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
