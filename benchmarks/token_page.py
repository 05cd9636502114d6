"""The page of one response of 131,072 tokens in a real Chromium: until it shows, recoloured, and scrolled.

Frames are those of `requestAnimationFrame`. Writes benchmarks/results/token_page.json.
"""

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
import server
from keeping import keep
from playwright.sync_api import Page, sync_playwright
from what_if import uploaded

FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
#: Until the frame after the tokens stand on the page has been drawn.
SHOWN = """() => new Promise((done, failed) => {
  setTimeout(() => failed(new Error("no frame was drawn for half a minute")), 30_000);
  requestAnimationFrame(() => requestAnimationFrame(
    () => done(document.querySelectorAll(".chunk span").length > 0 ? performance.now() : -1)));
})"""
SCROLL = """(box) => new Promise((done, failed) => {
  setTimeout(() => failed(new Error("scrolling did not end within a minute")), 60_000);
  const gaps = [];
  let before = performance.now();
  const step = (now) => {
    gaps.push(now - before);
    before = now;
    box.scrollTop += 600;
    const end = box.scrollTop + box.clientHeight >= box.scrollHeight - 1;
    if (gaps.length >= 300 || end) done(gaps.slice(1));
    else requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""


def write_file(path: Path, tokens: int) -> None:
    """Two responses of one group, with the text of every token, and a reward and a value for each."""
    random = np.random.default_rng(11)
    words = [" the", " answer", " is", "\n", " because", " 42", ",", " we"]
    with open(path, "wb") as file:
        for reward in (0.0, 1.0):
            texts = [words[k] for k in random.integers(0, len(words), tokens)]
            row = {
                "step": 1,
                "group_id": "g0",
                "prompt": "prompt",
                "reward": reward,
                "response": "".join(texts),
                "response_tokens": texts,
                "response_mask": ((np.arange(tokens) // 64) % 5 != 4).astype(np.int64),
                "token_level_rewards": np.r_[np.zeros(tokens - 1), reward],
                "values": random.normal(size=tokens).astype(np.float32).astype(np.float64),
            }
            file.write(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")


def opened(page: Page, url: str) -> tuple[float, float]:
    """Milliseconds from the request until something is painted, and until the tokens are."""
    page.goto(url, wait_until="domcontentloaded")
    shown = page.evaluate(SHOWN)
    page.wait_for_function(f"({FIRST_PAINT}) !== null")
    return page.evaluate(FIRST_PAINT), shown


def recoloured(page: Page) -> float:
    """Milliseconds from the click on another colour until the tokens are painted in it."""
    region = page.locator(".tokens")
    before = region.get_attribute("aria-label")
    begun = time.perf_counter()
    page.locator(".token-top nav a:not([aria-current])").first.click()
    page.wait_for_function("(before) => document.querySelector('.tokens').ariaLabel !== before", arg=before)
    assert page.evaluate(SHOWN) > 0
    return 1000 * (time.perf_counter() - begun)


def measured(url: str, rounds: int) -> dict[str, Any]:
    first, shown, colours = [], [], []
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "Install Chromium (Debian: apt-get install chromium)."
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for _ in range(rounds):
            paint, whole = opened(page, url)
            first.append(paint)
            shown.append(whole)
            colours.append(recoloured(page))
        page.goto(url, wait_until="networkidle")
        gaps = page.locator(".tokens").evaluate(SCROLL)
        browser.close()
    return {
        "first_paint_ms": statistics.median(first),
        "shown_ms": statistics.median(shown),
        "recolour_ms": statistics.median(colours),
        "scroll_p95_ms": statistics.quantiles(gaps, n=20)[-1],
        "frames": len(gaps),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=131_072)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vantage-bench-") as folder:
        path = Path(folder) / "rollouts.jsonl"
        write_file(path, args.tokens)
        with server.serve(Path(folder)) as running:
            with httpx.Client(base_url=f"{running.url}/api/v1", timeout=120) as client:
                batch = uploaded(client, path)
            found = measured(f"{running.url}/batches/{batch}/rollouts/0", args.rounds)
    found["tokens"] = args.tokens
    print(json.dumps(found, indent=1))
    keep("token_page", found)


if __name__ == "__main__":
    main()
