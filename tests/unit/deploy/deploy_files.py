"""What the manifests say, and what the code offers to them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from slackwater.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
NODE = "this-machine"
_DEFAULTED = re.compile(r"\$\{\w+:-([^}]*)\}")


def filled(value: Any) -> Any:
    """As compose reads it with no variable set."""
    if isinstance(value, str):
        return _DEFAULTED.sub(r"\1", value)
    if isinstance(value, dict):
        return {key: filled(item) for key, item in value.items()}
    return [filled(item) for item in value] if isinstance(value, list) else value


def as_job(cron_job: dict[str, Any]) -> dict[str, Any]:
    """The Job that a CronJob makes; anything else as it is."""
    if cron_job["kind"] != "CronJob":
        return cron_job
    return {**cron_job, "kind": "Job", "spec": cron_job["spec"]["jobTemplate"]["spec"]}


def parse(arguments: Sequence[str]) -> None:
    """Raises click's UsageError for a command line that the CLI would refuse."""
    group = typer.main.get_command(app)
    with group.make_context("slackwater", list(arguments)) as context:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]  # a click group
        assert name is not None
        with command.make_context(name, rest, parent=context):
            pass


def files_below(target: str, environment: Mapping[str, str]) -> set[str]:
    """Which files of a mounted folder the environment names."""
    return {value.removeprefix(f"{target}/") for value in environment.values() if value.startswith(f"{target}/")}
