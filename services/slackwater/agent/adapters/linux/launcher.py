"""Starts described workloads as processes of this machine that outlive the agent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slackwater.agent.adapters.linux.environment import supervisor_environment, workload_environment
from slackwater.agent.adapters.linux.workload_files import WorkloadFiles
from slackwater.agent.domain.workload_template import ReadyCheck, WorkloadTemplate
from slackwater.model.errors import Unavailable
from slackwater.runtime.owned_files import PRIVATE_FOLDER, open_owned

_CHECK_SECONDS = 1.0
_KEPT_LOGS = 64
_LAST_BYTES = 400


@dataclass(slots=True)
class ProcessLauncher:
    """See slackwater.agent.ports.Launcher. What a pod writes is in `<agent dir>/logs/<uid>.log`, of the last 64."""

    files: WorkloadFiles
    state_dir: Path
    instance: str
    _codes: dict[str, int] = field(default_factory=dict)

    @property
    def _logs(self) -> Path:
        return self.state_dir / "agent" / "logs"

    def templates(self) -> Mapping[str, WorkloadTemplate]:
        return self.files.templates()

    def launch(self, template: WorkloadTemplate, uid: str, labels: Mapping[str, str], within_seconds: float) -> None:
        command = [sys.executable, "-m", "slackwater.agent.launch", str(self.files.path_of(template.name))]
        command += ["--uid", uid, "--digest", template.digest, "--state-dir", str(self.state_dir)]
        command += ["--instance", self.instance, "--begins-by", str(time.monotonic() + within_seconds)]
        for key, value in labels.items():
            command += ["--label", f"{key}={value}"]
        try:
            self._drop_old_logs()
            log = os.fdopen(open_owned(self._logs / f"{uid}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")
            with log:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env=supervisor_environment(),
                )
        except OSError as error:
            raise Unavailable(f"{template.name}: no process can be started: {error}", code="not_launched") from error
        threading.Thread(target=self._reap, args=(uid, child), name=f"reap {uid}", daemon=True).start()

    def _reap(self, uid: str, child: subprocess.Popen[bytes]) -> None:
        """Waits for the end, which may come long after the agent has lost interest."""
        self._codes[uid] = child.wait()

    def _drop_old_logs(self) -> None:
        self._logs.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        logs = sorted(self._logs.glob("*.log"), key=lambda path: path.name)  # uids are in the order of time
        for path in logs[: -_KEPT_LOGS + 1]:
            with suppress(OSError):
                path.unlink()

    async def is_ready(self, template: WorkloadTemplate) -> bool:
        check = template.ready
        if check.port:
            return await _accepts(check.host, check.port)
        return not check.command or await _succeeds(check, template)

    def why_ended(self, uid: str) -> str:
        code, said = self._codes.get(uid), ""
        with suppress(OSError), os.fdopen(open_owned(self._logs / f"{uid}.log", os.O_RDONLY), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _LAST_BYTES))  # a pod may have written any amount
            said = log.read(_LAST_BYTES).decode(errors="replace").strip()
        ended = "was not seen to run" if code is None else f"ended with {code}"
        return f"the pod {ended}" + (f"; it wrote last: {said.splitlines()[-1]}" if said else "")


async def _accepts(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError, UnicodeError):  # the last one of a name that no resolver takes
        return False
    writer.close()
    return True


async def _succeeds(check: ReadyCheck, template: WorkloadTemplate) -> bool:
    try:
        child = await asyncio.create_subprocess_exec(
            *check.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=workload_environment(template.environment),
            cwd=template.directory or None,
        )
    except (OSError, ValueError):  # the last one of a NUL in a word
        return False
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            return await child.wait() == 0
    except TimeoutError:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        return False
