from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
import typer
from typer.testing import CliRunner

from slackwater.cli import main
from slackwater.cli.composition import SHARED, part_named
from slackwater.model.errors import InvalidInput, SlackwaterError, Unavailable
from slackwater.runtime.service_list import service_names

HEAVY = ("alembic", "asyncpg", "fastapi", "httpx2", "nats", "numpy", "rich", "sqlalchemy", "uvicorn", "yaml")


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_verb_explains_itself(verb: str) -> None:
    done = CliRunner().invoke(main.app, [verb, "--help"])
    assert done.exit_code == 0, done.output
    assert f"slackwater {verb}" in done.output.replace("root", "slackwater")
    assert len(done.output.splitlines()) > 5


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_option_and_argument_of_a_verb_is_explained(verb: str) -> None:
    command = typer.main.get_command(main.app).commands[verb]  # type: ignore[attr-defined]
    assert [parameter.name for parameter in command.params if not parameter.help] == []


def test_the_verbs_of_the_design_are_there() -> None:
    assert {"up", "run", "agent", "exec", "get", "describe", "why", "doctor"} <= set(main.VERBS)


def test_a_verb_without_a_module_is_a_broken_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "VERBS", ("levitate",))
    with pytest.raises(ModuleNotFoundError, match="levitate"):
        main.register(typer.Typer())


def test_help_loads_nothing_heavy() -> None:
    """What keeps `slackwater --help` and shell completion quick, without a timed assertion."""
    code = f"import sys, slackwater.cli.main; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def status_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main.main(arguments)
    assert isinstance(left.value.code, int)
    return left.value.code


def test_exit_statuses_distinguish_success_and_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("--version") == 0
    assert status_of("no-such-verb") == 2
    assert status_of("get") == 2
    assert "slackwater" in capsys.readouterr().out


@pytest.mark.parametrize(("error", "status"), [(Unavailable("away"), 1), (InvalidInput("wrong"), 2)])
def test_an_error_of_ours_is_one_line_and_a_status(
    error: SlackwaterError, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        raise error

    monkeypatch.setattr(main, "app", fails)
    assert status_of("up") == status
    assert capsys.readouterr().err == f"slackwater: {error.message}\n"


def test_an_interruption_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "app", interrupted)
    assert status_of("up") == 130


PRINTS = "from slackwater.cli import main; main.app = lambda **_: print('…' * 9000, flush=True); main.main([])"


@pytest.mark.parametrize(
    ("device", "encoding", "said"),
    [
        ("/dev/null", "ascii", ""),
        ("/dev/full", "utf-8", "slackwater: the output: No space left on device; free some space\n"),
    ],
)
def test_an_output_that_takes_not_everything_is_no_traceback(device: str, encoding: str, said: str) -> None:
    environment = {"PYTHONPATH": ":".join(sys.path), "PYTHONIOENCODING": encoding}
    with Path(device).open("w") as output:
        done = subprocess.run(
            [sys.executable, "-c", PRINTS], check=False, env=environment, stdout=output, stderr=-1, text=True
        )
    assert (done.stderr, done.returncode) == (said, 1 if said else 0)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ingesion", "did you mean 'ingestion'"),
        ("agent", "slackwater agent"),
        ("zzz", "allowed: ingestion, prediction"),
    ],
)
def test_an_unknown_service_lists_the_allowed_ones(name: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        part_named(name)


def test_run_knows_every_service_that_shares_servers() -> None:
    assert [part.name for part in SHARED] == [*service_names()]
    assert all(part_named(part.name) is part for part in SHARED)


def test_run_refuses_an_address_of_another_form_without_repeating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "slackwater.runtime.cpu_priority.lower_cpu_priority", str
    )  # it is this process that would give way
    arguments = ["run", "console", "--postgres", "mysql://u:secret@h/d", "--nats", "nats://h"]
    done = CliRunner().invoke(main.app, arguments)
    assert done.exit_code == 2
    assert "postgresql://" in done.output
    assert "secret" not in done.output
