"""docs/how-to/call-from-python.md: what it shows is the example, which runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from served import served
from tests.support.story import SURGE

from slackwater.client import AsyncClient, Client

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "how-to" / "call-from-python.md").read_text()
EXAMPLE = ROOT / "examples" / "place_work.py"


def test_the_page_shows_the_example_and_it_has_ten_lines() -> None:
    shown = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    code = EXAMPLE.read_text().partition('"""\n\n')[2]
    assert shown == [code]
    assert len([line for line in code.splitlines() if line]) <= 10


def test_the_example_runs() -> None:
    with served(SURGE[0] + 40) as console:
        environment = {"SLACKWATER_SERVER": console.url, "PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}"}
        running = subprocess.Popen(
            [sys.executable, "-u", str(EXAMPLE)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert running.stdout is not None
        try:
            placed, event = running.stdout.readline(), running.stdout.readline()
        finally:
            running.kill()
            running.wait()
            running.stdout.close()
    assert re.fullmatch(r"place on edge-\d+: [\d.]+ cores, \d+ MiB of batch\n", placed), placed
    assert event.split()[-1] in ("decision.recorded", "eviction.completed"), event


def test_what_it_names_exists() -> None:
    for name in re.findall(r"client\.(\w+)\(", PAGE):
        assert hasattr(Client, name), name
        assert hasattr(AsyncClient, name), name
