"""Takes the pictures of docs/images from the story, or with a folder named, every page in every look into it."""

from __future__ import annotations

import sys
import tempfile
from itertools import product
from pathlib import Path

from devtools import Browser, Page, chromium_on_path
from tests.support.story import SURGE, identifier

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "console"))
from served import Served, served

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TALLEST = 1180
SHOWN = {"console": "node", "overview": "overview", "record": "decision", "loop": "loop", "prediction": "prediction"}
"""Picture in docs/images: page."""
PAGES = {
    "overview": "/?span=6h",
    "memory": "/?span=24h&resource=memory",
    "nodes": "/nodes",
    "decisions": "/decisions",
    "filtered": "/decisions?pod=encode-video-0&kind=throttle",
    "node": "/nodes/edge-7",
    "told": "/decisions?pod=checkout-0&spared=true&done=carried-out&pool=edge",
    "decision": f"/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 25)}",
    "loop": "/loop",
    "moves": "/moves?span=15m",
    "events": "/events",
    "liveness": "/events?type=node.liveness_changed",
    "kinds": "/resources",
    "resources": "/resources/autonomies",
    "resource": "/resources/autonomies/edge",
    "deadletters": "/deadletters",
    "letter": "/deadletters/2",
    "prediction": f"/decisions/{identifier('edge-7', 'prediction', 840)}",
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
        give_up_two(console)
        if folder is None:
            for file, name in SHOWN.items():
                IMAGES.mkdir(parents=True, exist_ok=True)
                (IMAGES / f"{file}.png").write_bytes(picture(page, console.url + PAGES[name], 1280, "light", TALLEST))
            return
        for name, width, scheme in product(PAGES, (1280, 400), ("light", "dark")):
            shot = picture(page, console.url + PAGES[name], width, scheme)
            Path(folder, f"{name}-{width}-{scheme}.png").write_bytes(shot)


def give_up_two(console: Served) -> None:
    """Dead letters to look at: one that is no JSON, one of another version."""
    console.bury("malformed_json", "body is not JSON: EOF while parsing an object at line 1", b'{"node": "edge-7", "sa')
    body = b'{"node": "edge-7", "decided_at": "2026-01-05T09:31:06Z", "kind": "throttle", "result": "a lot"}'
    console.bury("invalid_payload", "decision.recorded: 11 invalid field(s), first record: Field required", body)


def picture(page: Page, url: str, width: int, scheme: str, height: int | None = None) -> bytes:
    """A page once it is live."""
    page.look(width, scheme=scheme)
    page.open(url)
    page.until("document.getElementById('live').dataset.state === 'open'")
    whole: int = page.ask("document.documentElement.scrollHeight")
    return page.screenshot(height=min(height or whole, whole))


if __name__ == "__main__":
    main(*sys.argv[1:])
