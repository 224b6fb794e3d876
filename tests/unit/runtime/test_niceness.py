"""Nice values of services on a shared machine."""

from __future__ import annotations

import subprocess
import sys

from slackwater.runtime.service_list import service_list


def niceness(service: str, before: int = 0) -> int:
    """Of a process after it has given way; it had `before` already."""
    imported = "import os; from slackwater.runtime.cpu_priority import lower_cpu_priority"
    code = f"{imported}; os.nice({before}); print(lower_cpu_priority({service!r}))"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)


def test_ensurance_goes_first() -> None:
    here = niceness("nobody")
    assert niceness("ensurance") == here
    assert niceness("ingestion") == max(here, 2)
    assert niceness("console") == max(here, 8)
    assert niceness("prediction") == max(here, 10)


def test_no_process_gets_a_lower_nice_value_than_its_operator_set() -> None:
    here = niceness("nobody")
    assert niceness("ingestion", before=15) == min(here + 15, 19)


def test_only_ensurance_goes_before_all_others() -> None:
    assert [name for name, spec in service_list().services.items() if spec.nice == 0] == ["ensurance"]
