"""Real processes: started, watched, started again when they die, killed, frozen, and gone when we are gone."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
RESTART_SECONDS = 0.1
_POLL_SECONDS = 0.02
_STOP_SECONDS = 8.0
_PORTS = 20_000, 32_000


class Program:
    """One process that is kept alive, as an init system does it. Start it from the main thread: the kernel then ends
    it with us, however we end."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.log_file = folder / f"{name}.log"
        self._command = [*_tied_to_us(), *command]
        self._environment = {**os.environ, **environment, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"}
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self.starts = 0
        self.unasked_exits = 0
        self._asked = False

    @property
    def pid(self) -> int:
        """Of the process that runs now, 0 while there is none."""
        return self._process.pid if self._process is not None and self._process.poll() is None else 0

    async def start(self) -> None:
        self._spawn()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def stop(self) -> int | None:
        """SIGCONT and SIGTERM, after a while SIGKILL. Returns the exit status."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait({self._keeper})
            self._keeper = None
        process, self._process = self._process, None
        if process is None:
            return None
        for number in (signal.SIGCONT, signal.SIGTERM):
            with suppress(ProcessLookupError):
                process.send_signal(number)
        if not await _ended(process, _STOP_SECONDS):
            process.kill()
            await _ended(process, _STOP_SECONDS)
        return process.returncode

    def kill(self) -> None:
        """SIGKILL now; the keeper starts it again."""
        self._asked = True
        self.send(signal.SIGKILL)

    def send(self, number: int) -> None:
        """A signal to the process that runs now, if one does."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def log_tail(self, characters: int = 1500) -> str:
        return self.log_file.read_text(errors="replace")[-characters:] if self.log_file.exists() else "(no log)"

    def _spawn(self) -> None:
        self.starts += 1
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                cwd=REPOSITORY,
                start_new_session=True,
            )

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            if self._process is not None and self._process.poll() is not None:
                self.unasked_exits += not self._asked
                self._asked = False
                await asyncio.sleep(RESTART_SECONDS)
                self._spawn()


class Memory:
    """The highest resident set of each process, as the kernel saw it; asked now and then, because kills forget it."""

    def __init__(self) -> None:
        self.highest: dict[str, int] = {}

    def look(self, name: str, pid: int | None) -> None:
        """Note the peak of `pid` so far."""
        if not pid:
            return
        with suppress(OSError, ValueError, IndexError):
            status = Path(f"/proc/{pid}/status").read_text()
            peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
            self.highest[name] = max(peak, self.highest.get(name, 0))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and of those of its children that have ended, so far; 0 if it is gone."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")


def busy_seconds(cores: Iterable[int]) -> float:
    """CPU seconds of these cores so far, of all processes, with steal."""
    total = 0.0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *words = line.split()
        if name in {f"cpu{core}" for core in cores}:
            user, nice, system, _, _, irq, softirq, steal = map(int, words[:8])
            total += user + nice + system + irq + softirq + steal
    return total / os.sysconf("SC_CLK_TCK")


def service_command(service: str, dsn: str, nats: str, port: int) -> list[str]:
    """`slackwater run SERVICE` as an operator would start it."""
    return [*slackwater(), "run", service, "--postgres", dsn, "--nats", nats, "--port", str(port)]


def slackwater() -> list[str]:
    return [sys.executable, "-m", "slackwater.cli"]


def python_path() -> str:
    return os.pathsep.join(str(REPOSITORY / part) for part in ("services", "libs", "."))


def free_port() -> int:
    """A free port below the range of net.ipv4.ip_local_port_range: the kernel gives it to no connection before the
    service binds it, nor while the service restarts."""
    while True:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def until(look: Callable[[], Awaitable[bool]], seconds: float, what: str, every: float = 0.05) -> float:
    """Wait for it; returns how long it took. Raises TimeoutError that names `what`."""
    began = time.monotonic()
    while not await look():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"within {seconds:g} s it did not come about that {what}")
        await asyncio.sleep(every)
    return time.monotonic() - began


def _tied_to_us() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


async def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
    return process.poll() is not None
