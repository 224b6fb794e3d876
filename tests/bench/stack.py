"""Runs a separate `slackwater up` for a measurement."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from slackwater.model.errors import NotFound
from slackwater.runtime.state import Endpoint, StateDir

_START_SECONDS = 60.0


@contextmanager
def running(state_dir: Path, *flags: str, settings: Mapping[str, str] | None = None) -> Iterator[tuple[int, Endpoint]]:
    """Yields the stack's pid and endpoint; stops it in order at the end."""
    state_dir.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"SLACKWATER_STATE_DIR": str(state_dir)} | dict(settings or {})
    command = [sys.executable, "-m", "slackwater.cli", "up", "--port", "0", *flags]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process.pid, _endpoint(process, state_dir)
    finally:
        process.terminate()
        process.wait(20)


def _endpoint(process: subprocess.Popen[bytes], state_dir: Path) -> Endpoint:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"slackwater up exited with {process.returncode}")
        try:
            return StateDir(state_dir).running_endpoint()
        except NotFound:
            time.sleep(0.05)
    raise RuntimeError(f"slackwater up was not ready after {_START_SECONDS:g} s")
