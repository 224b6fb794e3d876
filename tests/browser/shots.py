"""Takes docs/images/console.png from the story, or with a folder named, every page in every look into it."""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path

from devtools import Browser, Page, chromium_on_path

from slackwater.testing.story import SURGE, identifier

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "console"))
from served import served

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "console.png"
PAGES = {
    "overview": "/?span=6h",
    "memory": "/?span=24h&resource=memory",
    "nodes": "/nodes",
    "decisions": "/decisions",
    "filtered": "/decisions?pod=encode-video-0&kind=throttle",
    "node": "/nodes/edge-7",
    "decision": f"/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 25)}",
    "offer": f"/decisions/{identifier('edge-7', 'offer', 840)}",
}


def main(folder: str | None = None) -> None:
    executable = chromium_on_path()
    if executable is None:
        sys.exit("no chromium on PATH")
    with (
        tempfile.TemporaryDirectory() as profile,
        Browser(executable, Path(profile)) as browser,
        served() as console,
        browser.page() as page,
    ):
        console.remember(9)
        if folder is None:
            IMAGE.parent.mkdir(parents=True, exist_ok=True)
            IMAGE.write_bytes(picture(page, console.url + PAGES["node"], 1280, "light", height=1475))
            return
        for name, width, scheme in product(PAGES, (1280, 400), ("light", "dark")):
            shot = picture(page, console.url + PAGES[name], width, scheme)
            Path(folder, f"{name}-{width}-{scheme}.png").write_bytes(shot)


def picture(page: Page, url: str, width: int, scheme: str, height: int | None = None) -> bytes:
    """A page once it is live."""
    page.look(width, scheme=scheme)
    page.open(url)
    page.until("document.getElementById('live').dataset.state === 'open'")
    return page.screenshot(height=height)


if __name__ == "__main__":
    main(*sys.argv[1:])
