"""Groups of fault scenarios that were killed are removed at the next start; others are left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.faults.cgroup import Cgroup
from tests.faults.scenario import Skipped

_KILLED = """
import os, signal
from tests.faults.cgroup import Cgroup
with Cgroup("memory", "killed") as group:
    group.admit(os.getpid())
    print(group.path, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def ours() -> Iterator[Cgroup]:
    try:
        with Cgroup("memory", "test") as group:
            yield group
    except Skipped as reason:
        pytest.skip(str(reason))


def test_the_group_of_a_killed_run_is_removed_and_that_of_a_living_one_is_not(ours: Cgroup) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED], check=False, env=environment, stdout=subprocess.PIPE, text=True
    )
    left = Path(killed.stdout.strip())
    foreign = ours.path.parent / "slackwater-foreign"
    with suppress(FileExistsError):
        foreign.mkdir()
    try:
        assert left.exists()
        with Cgroup("memory", "next") as group:
            assert not left.exists()
            assert group.path.exists()
            assert ours.path.exists()
            assert foreign.exists()
    finally:
        foreign.rmdir()
