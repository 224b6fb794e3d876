"""Where a copy is taken from: addresses as given, else those of the instance of this state directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.cli.addresses import NATS_VARIABLE, POSTGRES_VARIABLE, addresses_or_here
from slackwater.model.errors import InvalidInput
from slackwater.runtime.state import VARIABLE, Endpoint, StateDir


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for variable in (POSTGRES_VARIABLE, NATS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(f"{variable}_FILE", raising=False)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_without_addresses_it_is_the_instance_that_runs_here(here: Path) -> None:
    (here / "postgres").mkdir()
    (here / "postgres" / "port").write_text("5499\n")
    (here / "postgres" / "password").write_text("secret\n")
    state = StateDir(here)
    with state.hold():
        state.announce(Endpoint("http://127.0.0.1:1", "nats://127.0.0.1:2", 1))
        assert addresses_or_here(None, None) == (
            "postgresql://postgres:secret@127.0.0.1:5499/slackwater",
            "nats://127.0.0.1:2",
        )


def test_where_nothing_runs_the_refusal_says_both_ways(here: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"--postgres: no address; .*no `slackwater up` runs in {here}"):
        addresses_or_here(None, None)


def test_one_address_alone_is_refused_and_never_mixed_with_those_of_the_instance() -> None:
    assert addresses_or_here("postgresql://a", "nats://b") == ("postgresql://a", "nats://b")
    with pytest.raises(InvalidInput, match="--nats: no address; give it"):
        addresses_or_here("postgresql://a", None)
    with pytest.raises(InvalidInput, match="--postgres: no address; give it"):
        addresses_or_here(None, "nats://b")
