"""What `up` says after its stop: where the demo's log is, and what the agent restored."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from slackwater.cli.steps import Steps
from slackwater.model.errors import Misconfigured
from slackwater.model.json_text import parse_json_text
from slackwater.model.plurals import counted
from slackwater.runtime.owned_files import open_owned
from slackwater.runtime.state import VARIABLE, demo_state_dir

LOG = "demo.log"


def demo_log() -> TextIO:
    """Returns the empty log file of a run of the demo, beside its state folder. Raises Misconfigured."""
    file = demo_state_dir().parent / LOG
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = open(file, "a", buffering=1, encoding="utf-8", opener=_opened)  # noqa: SIM115 - the caller closes it
        stream.truncate(0)
    except OSError as error:
        raise Misconfigured(
            f"cannot write {file}: {error.strerror}; set {VARIABLE} to a directory of your own"
        ) from None
    return stream


def _opened(path: str, flags: int) -> int:
    return open_owned(Path(path), flags)


def report_log(stream: TextIO, steps: Steps) -> None:
    """Name the log if anything was written to it."""
    lines = Path(stream.name).read_text(encoding="utf-8", errors="replace").count("\n")
    if lines:
        steps.write_line(f"{counted(lines, 'line')} of the log are in {stream.name}")


def report_restored(state_dir: Path, steps: Steps) -> None:
    """Say how many files the agent restored, and whether all hold their previous text; nothing if it wrote none."""
    try:
        report = parse_json_text((state_dir / "agent" / "restore-report.json").read_text())
    except FileNotFoundError:
        return
    if not report["exact"]:
        steps.write_line(f"not all files were restored exactly: {state_dir / 'agent' / 'restore-report.json'}")
    elif report["files"]:
        steps.write_line(f"restored {counted(len(report['files']), 'file')} exactly")
