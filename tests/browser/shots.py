"""Takes docs/images/console.png from the story, or with a folder named, every page in every look into it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from devtools import Browser, chromium_on_path
from served import served

from slackwater.testing.story import SURGE, identifier

IMAGE = Path(__file__).parents[2] / "docs" / "images" / "console.png"
PAGES = {
    "fleet": "/",
    "node": "/nodes/edge-7",
    "decision": f"/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 25)}",
    "offer": f"/decisions/{identifier('edge-7', 'offer', 840)}",
}


def main(folder: str | None = None) -> None:
    executable = chromium_on_path()
    if executable is None:
        sys.exit("no chromium on PATH")
    with tempfile.TemporaryDirectory() as profile, Browser(executable, Path(profile)) as browser:
        with served() as console, browser.page() as page:
            if folder is None:
                page.look(1280)
                page.open(console.url + PAGES["node"])
                page.until("document.getElementById('live').dataset.state === 'open'")
                IMAGE.parent.mkdir(parents=True, exist_ok=True)
                IMAGE.write_bytes(page.screenshot(height=1475))
                return
            for name, path in PAGES.items():
                for width in (1280, 400):
                    for scheme in ("light", "dark"):
                        page.look(width, scheme=scheme)
                        page.open(console.url + path)
                        page.until("document.getElementById('live').dataset.state === 'open'")
                        Path(folder, f"{name}-{width}-{scheme}.png").write_bytes(page.screenshot())


if __name__ == "__main__":
    main(*sys.argv[1:])
