"""`slackwater replay`: what it asks the server, and what it refuses before asking."""

from __future__ import annotations

import pytest
from served import served
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.cli.replay import position_of
from slackwater.model.errors import InvalidInput


@pytest.mark.parametrize("what", ["deadletter", "node/12", "deadletter/x", "deadletter/0", "deadletter/-1", ""])
def test_what_is_no_dead_letter_is_refused(what: str) -> None:
    with pytest.raises(InvalidInput):
        position_of(what)


def test_a_letter_is_listed_tried_replayed_and_then_refused() -> None:
    runner = CliRunner()
    with served(0) as console:
        console.bury("invalid_payload", "record: Field required", b"{}")
        where = ["--server", console.url]
        listed = runner.invoke(app, ["get", "deadletters", *where])
        assert "invalid_payload" in listed.output
        assert "decision.recorded.v1" in listed.output
        assert "would publish" in runner.invoke(app, ["replay", "deadletter/1", "--dry-run", *where]).output
        assert "published to" in runner.invoke(app, ["replay", "deadletter/1", *where]).output
        refused = runner.invoke(app, ["replay", "deadletter/1", *where])
        assert refused.exit_code != 0
        assert runner.invoke(app, ["replay", "deadletter/1", "--again", *where]).exit_code == 0
