"""An event added as docs/how-to/add-an-event.md says, by its module and PUBLISHES, appears wherever events do."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
PAGE = (ROOT / "docs" / "how-to" / "add-an-event.md").read_text()


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What observe_example.py saw."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(HERE / "observe_example.py")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_it_travels_and_its_stream_stores_it(seen: dict[str, Any]) -> None:
    assert seen["travels"]
    assert seen["subject"].startswith("sw.v1.claim.admitted.")
    assert "sw.v1.claim.admitted.>" in seen["stream"]


def test_its_publisher_and_the_console_have_permissions(seen: dict[str, Any]) -> None:
    assert "sw.v1.claim.admitted.*.>" in seen["publisher"]
    assert "$JS.ACK.DECISIONS.console-claim-admitted.>" in seen["console"]
    assert "sw.v1.dlq.console-claim-admitted" in seen["console"]


def test_the_contracts_describe_it(seen: dict[str, Any]) -> None:
    assert "DECISIONS" in seen["channel"]
    assert seen["operations"] == ["console.receive.claim.admitted"]
    assert set(seen["schema"]["properties"]) == {"quota", "claim", "position", "admitted_at"}
    assert seen["openapi"] >= 2  # types of /v1/events and of /v1/stream


def test_the_console_consumes_counts_and_lists_it(seen: dict[str, Any]) -> None:
    assert seen["consumer"] == "claim.admitted"
    assert 'slackwater_console_events_recorded_total{event="claim.admitted"} 1.0' in seen["metrics"]
    (item,) = seen["items"]
    assert (item["type"], item["source"], item["data"]["position"]) == ("claim.admitted", "quota", 3)
    columns = re.findall(r'<th scope="col">([^<]+)</th>', seen["page"])
    assert columns == ["Time (UTC)", "Node", "Quota", "Claim", "Position", "Admitted at", "Source", "Why"]
    assert ">team-a</td>" in seen["page"]


def test_the_command_line_shows_its_fields(seen: dict[str, Any]) -> None:
    fields = "quota team-a, claim c1, position 3, admitted_at 2026-01-05T00:00:00Z"
    assert seen["stream line"].endswith(fields)
    assert seen["get line"] == [f"2026-01-05 00:00:00Z  claim.admitted  -  {fields}"]


def test_the_page_shows_the_example_as_it_is_and_files_that_exist() -> None:
    source = (HERE / "example" / "claim_admitted.py").read_text()
    assert source.partition("\n\nclass ")[2].strip() in PAGE
    named = [path for path in re.findall(r"`(\w[\w.]*/[\w/.]+\.(?:py|yaml))`", PAGE) if "claim_admitted" not in path]
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_the_page_names_two_files_and_is_short() -> None:
    by_hand = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(by_hand) == 2
    assert len(PAGE.split()) <= 220
