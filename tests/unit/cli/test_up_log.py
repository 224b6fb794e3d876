"""The log of the demo is for its user alone, and no link makes it overwrite another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.cli.up_log import demo_log
from slackwater.model.errors import Misconfigured
from slackwater.runtime.state import VARIABLE, demo_state_dir


def test_it_is_begun_anew_for_its_user_and_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    for text in ("first", "second"):
        with demo_log() as log:
            log.write(text)
    file = demo_state_dir().parent / "demo.log"
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("second", 0o600)
    other = tmp_path / "other"
    other.write_text("kept")
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(Misconfigured, match="cannot write"):
        demo_log()
    assert other.read_text() == "kept"
