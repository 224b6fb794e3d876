"""An event that is added as docs/how-to/add-an-event.md says appears wherever events are listed."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import claim_admitted
import pytest
from claim_admitted import ClaimAdmitted
from contracts import generate

from slackwater.bus.admin import streams
from slackwater.bus.codec.cloudevents import decode, encode
from slackwater.cli.events import line_of
from slackwater.events import registry
from slackwater.events.envelope import event_of, subject_of
from slackwater.events.registry import discover, event_modules

ROOT = Path(__file__).resolve().parents[3]
ADMITTED = ClaimAdmitted(quota="team-a", claim="c1", position=3, admitted_at=datetime(2026, 1, 5, tzinfo=UTC))


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> str:
    """The registry with the example in it, as after the module is in the package; the text of streams.yaml."""
    discovered = discover([*event_modules(), claim_admitted])
    for module in (registry, streams, generate):
        monkeypatch.setattr(module, "EVENTS", tuple(one for one in discovered if one.STREAM))
    text = (ROOT / "contracts" / "streams.yaml").read_text()
    monkeypatch.setattr(generate, "load", lambda: streams.parse(text, "tests"))
    return text


def test_it_travels(added: str) -> None:
    event = event_of(ADMITTED, source="quota", time=ADMITTED.admitted_at)
    message = encode(event)
    assert subject_of(ADMITTED).startswith("sw.v1.claim.admitted.")
    assert decode(ClaimAdmitted, message.headers, message.body).data == ADMITTED


def test_its_stream_keeps_it(added: str) -> None:
    assert "sw.v1.claim.admitted.>" in streams.parse(added, "tests").streams["DECISIONS"].subjects


def test_the_contracts_describe_it(added: str) -> None:
    document = generate.asyncapi(generate.flows())
    assert "DECISIONS" in document["channels"]["claim.admitted"]["description"]
    assert "claim.admitted" in document["components"]["messages"]
    assert set(generate.schema_of(ClaimAdmitted)["properties"]) == {"quota", "claim", "position", "admitted_at"}


def test_the_command_line_shows_its_fields() -> None:
    data = json.loads(ADMITTED.model_dump_json())
    line = line_of({"type": "claim.admitted", "node": "", "data": data})
    assert line.endswith("quota team-a, claim c1, position 3, admitted_at 2026-01-05T00:00:00Z")


def test_the_page_shows_the_example_as_it_is_and_files_that_exist() -> None:
    page = (ROOT / "docs" / "how-to" / "add-an-event.md").read_text()
    source = (ROOT / "tests" / "unit" / "events" / "claim_admitted.py").read_text()
    assert source.partition("\n\nclass ")[2].strip() in page
    named = [path for path in re.findall(r"`(\w[\w.]*/[\w/.]+\.(?:py|yaml))`", page) if "claim_admitted" not in path]
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []
