"""Who gives way to whom on a shared machine."""

from __future__ import annotations

import subprocess
import sys

from slackwater.cli.composition import SHARED
from slackwater.runtime.niceness import NICENESS


def niceness(service: str, before: int = 0) -> int:
    """Of a process after it has given way; it had `before` already."""
    code = (
        f"import os; from slackwater.runtime.niceness import give_way; os.nice({before}); print(give_way({service!r}))"
    )
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


def test_ensurance_goes_first() -> None:
    here = niceness("nobody")
    assert niceness("ensurance") == here
    assert niceness("ingestion") == max(here, 2)
    assert niceness("console") == max(here, 8)
    assert niceness("prediction") == max(here, 10)


def test_nobody_is_made_less_nice_than_its_operator_wants() -> None:
    assert niceness("ingestion", before=15) >= 15


def test_every_service_but_ensurance_has_its_place() -> None:
    assert NICENESS.keys() | {"ensurance"} == {part.name for part in SHARED}
