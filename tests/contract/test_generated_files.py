"""Generated files. That they are up to date is a check (tools/checks.py); here is that a difference would be seen."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from contracts import generate
from samples import sample_of

from slackwater.events.envelope import Payload
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.events.rosters import no_roster


def test_drift_is_reported_by_file_and_line_and_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = generate.generated()
    monkeypatch.setattr(generate, "generated", lambda: files)  # the same each time, and it takes seconds
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert generate.differences(tmp_path) == []
    (tmp_path / "flow.md").write_text("# Something else\n")
    (tmp_path / "events" / "gone.v1.json").write_text("{}")
    changed, stale = generate.differences(tmp_path)
    assert "-# Something else" in changed
    assert "gone.v1.json is no longer generated" in stale
    monkeypatch.setattr(generate, "differences", lambda: [changed])
    assert generate.main(["--check"]) == 1
    assert "contracts/flow.md" in capsys.readouterr().out


@pytest.mark.parametrize("payload", [*EVENTS, *BROADCASTS], ids=lambda payload: payload.TYPE)
def test_a_sample_of_every_event_fits_its_committed_schema(payload: type[Payload]) -> None:
    schema = json.loads((generate.CONTRACTS / "events" / generate.schema_name(payload)).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(payload.from_document(sample_of(payload), no_roster).body()), schema)


def test_declarations_are_read_without_importing_the_services(tmp_path: Path) -> None:
    package = tmp_path / "services" / "slackwater" / "broken"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        'import does_not_exist\nCONSUMES = ("usage.reported",)\nPUBLISHES: tuple[str, ...] = ()\n'
    )
    assert generate.flows(tmp_path) == (generate.Flow("broken", ("usage.reported",), ()),)


def test_the_picture_joins_publishers_and_consumers() -> None:
    page = generate.flow_page(
        [generate.Flow("a", (), ("usage.reported",)), generate.Flow("b", ("usage.reported",), ())]
    )
    assert "  a -- usage.reported --> b" in page
    assert "| `usage.reported` | a | b | USAGE |" in page


def test_every_operation_of_asyncapi_points_at_a_channel_that_exists() -> None:
    document = generate.asyncapi(generate.flows())
    for operation in document["operations"].values():
        assert operation["channel"]["$ref"].removeprefix("#/channels/") in document["channels"]
