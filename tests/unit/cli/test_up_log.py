"""The log of the demo is for its user alone, and no link makes it overwrite another file."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from slackwater.cli.steps import Steps
from slackwater.cli.up_log import demo_log, report_log
from slackwater.model.errors import Misconfigured
from slackwater.runtime.state import VARIABLE, demo_state_dir


class Written:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, line: str) -> None:
        self.lines.append(line)


def test_it_is_begun_anew_for_its_user_and_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    file, steps = demo_state_dir().parent / "demo.log", Written()
    for text in ("first\n", "second\n"):
        with demo_log() as log:
            log.write(text)
            report_log(log, cast("Steps", steps))
    assert steps.lines == [f"1 line of the log are in {file}"] * 2
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("second\n", 0o600)
    other = tmp_path / "other"
    other.write_text("kept")
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(Misconfigured, match="cannot write"):
        demo_log()
    assert other.read_text() == "kept"
