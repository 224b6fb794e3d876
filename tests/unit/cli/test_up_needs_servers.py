"""`slackwater up` without the extra `embedded`."""

from __future__ import annotations

import pytest

from slackwater.cli.main import main
from slackwater.model.errors import Misconfigured


@pytest.mark.parametrize("missing", ["embedded_nats.find_nats_server", "embedded_postgres.installed_binaries"])
def test_up_says_what_to_install(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise Misconfigured("no server here")

    monkeypatch.setattr(f"slackwater.runtime.{missing}", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["up", "--seconds", "1"])
    assert ended.value.code == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "pip install 'slackwater[embedded]'" in line
