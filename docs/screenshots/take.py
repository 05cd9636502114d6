"""Screenshots of every page with the example data: light and dark, 1440 and 400 px wide, into .shots/.

`--worst` takes the batches of worst.py instead, `--only NAME …` only the pages whose names contain one of
these. `--docs` also refreshes the pictures that the README and the guides show. Prints console errors,
requests to another origin and pages that scroll sideways, and ends with status 1 if there were any.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, Page, sync_playwright
from worst import HOSTILE, LONG, WORST, decoded, file_of, table

ROOT = Path(__file__).resolve().parents[2]
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
ARGS += ["--disable-component-update", "--disable-sync"]
SCHEMES = ("light", "dark")
IN_DOCS = ("home", "batch", "group", "rollout", "whitening", "run", "verify", "columns-open")
DARK_IN_DOCS = ("group",)


@contextmanager
def demo_server(folder: Path) -> Iterator[str]:
    """`vantage demo` on a folder of its own; yields its address once the example is loaded."""
    command = [sys.executable, "-m", "app.cli", "demo", "--port", "0", "--data-dir", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        found = next((m for line in process.stdout if (m := re.search(r"http://[\d.]+:\d+", line))), None)
        if found is None:
            raise SystemExit("vantage demo ended before it served")
        yield found.group(0)
    finally:
        process.terminate()
        process.wait(30)


def pages(base: str) -> dict[str, str]:
    """Name -> path of one page of every kind, at the step where the example goes wrong."""
    api = httpx.Client(base_url=f"{base}/api/v1", timeout=60)
    while any(
        job["state"] in ("queued", "running")
        for job in api.get("/jobs", params={"limit": 200}).json()["items"]
    ):
        time.sleep(1)  # jobs that somebody else asked for have no request to wait in
    run = next(r for r in api.get("/runs").json()["items"] if r["name"] == "example")
    steps = api.get(f"/runs/{run['id']}/steps", params={"limit": 100}).json()["items"]
    batch = next((s for s in steps if s["step"] == 17), steps[-1])["batch"]
    api.post(f"/batches/{batch}/reconcile", params={"wait": 60}, json={})
    uploads = api.get("/jobs", params={"limit": 200}).json()["items"]
    upload = next(j["id"] for j in uploads if j["kind"] in ("ingest", "upload"))
    answers = b"".join(b"q%d,text %d,%d,x\n" % (i // 4, i, i % 2) for i in range(8))
    columns = send(api, "table.csv", b"question,completion,score,note\n" + answers)
    open_columns = send(api, "asked.csv", b"asked,model_said,marked,note\n" + answers)
    tokenizer, ids = decoded([" the", " sum", " is", " 12", ",", " so", " ", "\n", "yes", "."])
    api.put("/tokenizers/an-example", content=tokenizer).raise_for_status()
    texts = send(api, "ids.jsonl", ids, run="decoded", tokenizer="an-example")
    figures = ("group_rewards", "whitening_scopes", "token_heatmap")
    panels: list[dict[str, Any]] = [{"figure": name, "batch": batch} for name in figures]
    panels.append({"rollout": 0, "batch": batch})
    board = api.post("/dashboards", json={"title": "What happened at step 17", "panels": panels}).json()
    share = api.post(f"/dashboards/{board['id']}/shares", json={}).json()
    return {
        "home": "/",
        "receipt": f"/uploads/{upload}",
        "columns": f"/uploads/{columns['id']}/columns",
        "columns-open": f"/uploads/{open_columns['id']}/columns",
        "decoded-receipt": f"/uploads/{texts['id']}",
        "decoded-rollout": f"/batches/{texts['batches'][0]['id']}/rollouts/0",
        "run": f"/runs/{run['id']}",
        **of_batch(batch, group=3, rollout=24),
        "dashboards": "/dashboards",
        "dashboard": f"/dashboards/{board['id']}",
        "shared": urlsplit(share["url"]).path,
        "jobs": "/jobs",
        "findings": "/findings",
    }


def send(api: httpx.Client, name: str, content: bytes, **options: str) -> dict[str, Any]:
    """The receipt of an upload that has been read, or refused."""
    answer = api.post("/uploads", params={"wait": "60", "filename": name, **options}, content=content)
    receipt: dict[str, Any] = answer.json()
    while receipt["state"] in ("queued", "running"):
        time.sleep(1)  # it may take longer than the API waits
        receipt = api.get(f"/uploads/{receipt['id']}").json()
    return receipt


def of_batch(batch: str, group: int = 0, rollout: int = 0) -> dict[str, str]:
    """Name -> path of every page of one batch."""
    path = f"/batches/{batch}"
    return {
        "batch": path,
        "group": f"{path}/groups/{group}",
        "siblings": f"{path}/groups/{group}?view=side",
        "rollout": f"{path}/rollouts/{rollout}",
        "whitening": f"{path}/whitening",
        "verify": f"{path}/verify",
        "compare": f"{path}/compare",
        "loss": f"{path}/loss",
    }


def worst_pages(base: str) -> dict[str, str]:
    """The pages of the worst batches, uploaded and reconciled."""
    api = httpx.Client(base_url=f"{base}/api/v1", timeout=120)
    found = {"worst-home": "/"}
    for name in WORST:
        upload = send(api, f"{name}.jsonl", file_of(name))
        batch = upload["batches"][0]["id"]
        api.post(f"/batches/{batch}/reconcile", params={"wait": 60}, json={})
        api.post(f"/batches/{batch}/estimates", params={"wait": 60}, json={"convention": "dr_grpo/verl"})
        found[f"{name}-receipt"] = f"/uploads/{upload['id']}"
        found[f"{name}-run"] = f"/runs/worst-{name}"
        found.update({f"{name}-{page}": path for page, path in of_batch(batch).items()})
    tokenizer, ids = decoded([HOSTILE, LONG, "\n", "\t", "\u200b", " end", "ש", "0"])
    api.put("/tokenizers/" + "x" * 60, content=tokenizer).raise_for_status()
    texts = send(api, "ids.jsonl", ids, tokenizer="x" * 60)
    found["decoded-receipt"] = f"/uploads/{texts['id']}"
    found.update({f"decoded-{page}": path for page, path in of_batch(texts["batches"][0]["id"]).items()})
    columns = send(api, f"{LONG}/{LONG}.csv", table())
    return found | {
        "table-columns": f"/uploads/{columns['id']}/columns",
        "table-receipt": f"/uploads/{columns['id']}",
    }


def watch(page: Page, base: str, faults: list[str]) -> None:
    page.on("console", lambda m: faults.append(f"{page.url}: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda e: faults.append(f"{page.url}: {e}"))
    page.on(
        "request",
        lambda r: (
            faults.append(f"off-origin: {r.url}") if not r.url.startswith((base, "data:", "blob:")) else None
        ),
    )


def settle(page: Page) -> None:
    """Scroll through, so that lazily drawn charts are drawn, and wait until each is."""
    page.wait_for_load_state("networkidle")
    height = page.evaluate("document.documentElement.scrollHeight")
    for y in range(0, height, 600):
        page.evaluate("y => window.scrollTo(0, y)", y)
        page.wait_for_timeout(60)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(400)


def take(
    browser: Browser, base: str, paths: dict[str, str], out: Path, schemes: tuple[str, ...]
) -> list[str]:
    faults: list[str] = []
    for scheme in schemes:
        for width in (1440, 400):
            context = browser.new_context(
                viewport={"width": width, "height": 900},
                color_scheme=scheme,  # type: ignore[arg-type] # "light" or "dark", from SCHEMES
            )
            page = context.new_page()
            watch(page, base, faults)
            for name, path in paths.items():
                page.goto(base + path)
                settle(page)
                wide = page.evaluate("document.documentElement.scrollWidth")
                if wide > width:
                    faults.append(f"{name} at {width}: {wide} px wide")
                # Before the whole page, for which the window grows and charts are drawn anew.
                if width == 1440:
                    page.screenshot(path=out / (f"{name}.png" if scheme == "light" else f"{name}-dark.png"))
                page.screenshot(path=out / f"{name}-{scheme}-{width}.png", full_page=True)
            context.close()
    return faults


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", action="store_true", help="also refresh docs/screenshots/*.png")
    parser.add_argument("--base", help="a running server with the example loaded, instead of one of our own")
    parser.add_argument("--worst", action="store_true", help="the batches that pages find hard")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="only pages whose names contain one of these"
    )
    parser.add_argument("--scheme", choices=SCHEMES, help="one of the two colour schemes instead of both")
    args = parser.parse_args()
    if args.docs and (args.worst or args.scheme):
        parser.error("--docs takes pages of the example, in both schemes")
    out = ROOT / ".shots"
    out.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory(prefix="vantage-shots-") as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=ARGS)
        with nullcontext(args.base) if args.base else demo_server(Path(folder)) as base:
            paths = worst_pages(base) if args.worst else pages(base)
            kept = {
                name: path
                for name, path in paths.items()
                if not args.only or any(part in name for part in args.only)
            }
            faults = take(browser, base, kept, out, (args.scheme,) if args.scheme else SCHEMES)
        browser.close()
    if args.docs:
        dark = [f"{name}-dark" for name in DARK_IN_DOCS if name in kept]
        for name in [*filter(kept.__contains__, IN_DOCS), *dark]:
            shutil.copy(out / f"{name}.png", ROOT / "docs" / "screenshots" / f"{name}.png")
    sys.stdout.write("\n".join(faults) + "\n" if faults else "no faults\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
