"""Another colour for a text that stands on a page is what the page in that colour would show."""

import json
import re
import struct

import numpy as np
import pytest

from app.tokens import BUCKETS, NO_VALUE
from tests.pages.conftest import Site

FLAGS = ("m", "o", "sp", "cl")


def class_of(key: int) -> str:
    bucket, flags = divmod(key, 16)
    names = ["bx" if bucket == NO_VALUE else f"b{bucket}"]
    return " ".join(names + [name for bit, name in enumerate(FLAGS) if flags & 1 << bit])


def classes_in(html: str) -> list[str]:
    """The classes of the token elements of a page, in order."""
    text = html[html.index('<div class="tokens') : html.index('class="legend token-legend')]
    return re.findall(r'<span class="([^"]+)"', text)


@pytest.mark.parametrize("query", ["", "?color=value", "?color=reward", "?color=logp", "?color=nonsense"])
@pytest.mark.parametrize("name", ["hostile", "two-tasks"])
def test_colours_are_those_of_the_page(site: Site, name: str, query: str) -> None:
    path = f"/batches/{site.batches[name]}/rollouts/1"
    html = site.page(f"{path}{query}")
    answer = site.client.get(f"{path}/colours{query}")
    (size,) = struct.unpack_from("<I", answer.content)
    header = json.loads(answer.content[4 : 4 + size])
    keys = np.frombuffer(answer.content, dtype=np.uint8, offset=4 + size)
    assert keys.size > 0 and [class_of(key) for key in keys.tolist()] == classes_in(html)
    assert header["head"] in html and "/colours" not in header["head"]
    assert f'aria-label="{header["label"]}"' in html


def test_every_class_has_its_number() -> None:
    assert len({class_of(key) for key in range((BUCKETS + 1) * 16)}) == (BUCKETS + 1) * 16


def test_colours_of_a_rollout_that_is_not_there(site: Site) -> None:
    assert site.client.get(f"/batches/{site.batches['plain']}/rollouts/99/colours").status_code == 404
