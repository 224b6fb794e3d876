from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from slackwater.model.errors import Misconfigured, NotFound
from slackwater.runtime.state import Endpoint, StateDir, client_state_dir, default_state_dir, demo_state_dir

ENDPOINT = Endpoint("http://127.0.0.1:1", "nats://127.0.0.1:2", os.getpid(), token="secret")


def test_the_instance_id_is_made_once_and_is_eight_hex_digits(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "new").instance_id()
    assert len(first) == 8
    assert int(first, 16) >= 0
    assert StateDir(tmp_path / "new").instance_id() == first
    assert StateDir(tmp_path / "other").instance_id() != first


def test_a_second_instance_is_refused_with_the_process_that_runs(tmp_path: Path) -> None:
    with StateDir(tmp_path).hold(), pytest.raises(Misconfigured, match=rf"pid {os.getpid()}\).*SLACKWATER_STATE_DIR"):
        StateDir(tmp_path).hold().__enter__()
    with StateDir(tmp_path).hold():
        assert StateDir(tmp_path).holder() == os.getpid()
    assert StateDir(tmp_path).holder() is None


def test_what_cannot_be_a_directory_is_said_with_its_reason_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path, reason in ((file, "File exists"), (file / "below", "Not a directory"), (Path("/proc/x"), "No such file")):
        state = StateDir(path)
        with pytest.raises(Misconfigured, match=f"cannot write {path}: {reason}.*set SLACKWATER_STATE_DIR"):
            state.hold().__enter__()
        assert state.holder() is None
        with pytest.raises(NotFound, match="no instance runs"):
            state.running_endpoint()


def test_the_endpoint_is_found_while_running_and_only_then(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    with pytest.raises(NotFound, match="slackwater up"):
        state.running_endpoint()
    with state.hold():
        with pytest.raises(NotFound, match="still starting"):
            state.running_endpoint()
        state.announce(ENDPOINT)
        assert StateDir(tmp_path).running_endpoint() == ENDPOINT
    assert not (tmp_path / "endpoint.json").exists()


def test_the_endpoint_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    with StateDir(tmp_path).hold():
        StateDir(tmp_path).announce(ENDPOINT)
        assert stat.S_IMODE((tmp_path / "endpoint.json").stat().st_mode) == 0o600


def _announce_and_die(path: Path) -> None:
    with StateDir(path).hold():
        StateDir(path).announce(ENDPOINT)
        os._exit(9)


def test_what_a_killed_instance_left_is_ignored_and_does_not_block(tmp_path: Path) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_announce_and_die, args=(tmp_path,))
    child.start()
    child.join()
    assert (tmp_path / "endpoint.json").exists()
    with pytest.raises(NotFound):
        StateDir(tmp_path).running_endpoint()
    with StateDir(tmp_path).hold():
        assert not (tmp_path / "endpoint.json").exists()


def test_the_lock_is_let_go_when_the_holder_fails(tmp_path: Path) -> None:
    holding = StateDir(tmp_path).hold()
    holding.__enter__()
    StateDir(tmp_path).announce(ENDPOINT)
    failure = ZeroDivisionError()
    assert not holding.__exit__(ZeroDivisionError, failure, None)
    assert not (tmp_path / "endpoint.json").exists()
    with StateDir(tmp_path).hold():
        pass


def test_the_variable_chooses_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKWATER_STATE_DIR", str(tmp_path))
    assert default_state_dir() == tmp_path
    monkeypatch.delenv("SLACKWATER_STATE_DIR")
    assert default_state_dir().name == ".slackwater"


def test_the_one_process_of_a_service_has_the_same_name_after_every_restart(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    with state.replica("ingestion") as first:
        assert first is not None
        assert first.endswith("-ingestion")
    with state.replica("ingestion") as again, state.replica("ensurance") as other:
        assert again == first
        assert other not in (None, first)


def test_a_second_process_of_a_service_in_one_directory_has_no_name(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    with state.replica("ingestion"), state.replica("ingestion") as second:
        assert second is None


def test_where_nothing_can_be_written_a_process_has_no_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with StateDir(tmp_path / "file" / "state").replica("ingestion") as name:
        assert name is None


def test_a_command_answers_from_the_demo_only_where_it_ran_last_or_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_STATE_DIR", str(tmp_path))
    own, demo = StateDir(tmp_path), StateDir(demo_state_dir())
    assert client_state_dir() == tmp_path
    with demo.hold():
        assert client_state_dir() == demo.path
        with own.hold():
            assert client_state_dir() == tmp_path
    os.utime(own.path / "lock", (100, 100))
    os.utime(demo.path / "lock", (200, 200))
    assert client_state_dir() == demo.path
    os.utime(own.path / "lock", (300, 300))
    assert client_state_dir() == tmp_path
