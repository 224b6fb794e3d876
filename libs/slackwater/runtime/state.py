"""The state directory: everything one instance keeps on this machine, and how its own CLI finds it.

lock            held (flock) by the one instance that runs here; the kernel lets go of it even after kill -9
instance-id     eight hex digits, made once: names this instance's cgroups `slackwater-<id>`
endpoint.json   where the running instance listens (mode 0600: it may hold the token)
postgres/ nats/ agent/ …   one directory per part that keeps something

It belongs to the user that runs the instance; of another user it is refused (slackwater.runtime.owned_files).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from slackwater.model.errors import Misconfigured, NotFound
from slackwater.runtime.owned_files import SHARED_FOLDER, open_owned, own_folder, write_atomically

VARIABLE = "SLACKWATER_STATE_DIR"
DIRECTORY = ".slackwater"
INSTANCE_ID, LOCK, AGENT = "instance-id", "lock", "agent"
READABLE_FILE = 0o644
"""For files by which another user learns whose instance this is."""
DEMO = "demo"
RUN_SUMMARY = "run-summary.json"
"""What the demo's last run measured, beside its state directory."""
DEMO_PICTURES = "pictures"
"""The folder of the scenes' pictures in the demo's state directory."""
LOCK_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a running instance. `token` is None when it listens on loopback without
    one.
    """

    http_url: str
    nats_url: str
    pid: int
    token: str | None = None
    version: str = ""
    rpc_address: str | None = None
    """HOST:PORT of gRPC, None when it is disabled."""


def default_state_dir() -> Path:
    """Returns SLACKWATER_STATE_DIR; else `.slackwater` in the checkout this code runs from; else
    the user's state folder.
    """
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        return checkout / DIRECTORY
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home).expanduser() / "slackwater"


def demo_state_dir() -> Path:
    """Returns the demo's own state directory, below the default one and never the same."""
    return default_state_dir() / DEMO


def client_state_dir() -> Path:
    """Returns the state directory that a command answers from: the default one, or the demo's below it.

    A running instance comes first, and the demo's after the other. Of two stopped ones it is the one that ran last.
    """
    own, demo = default_state_dir(), demo_state_dir()
    if StateDir(own).holder() is not None:
        return own
    if StateDir(demo).holder() is not None:
        return demo
    return demo if _last_held(demo) > _last_held(own) else own


def _last_held(state_dir: Path) -> float:
    try:
        return (state_dir / LOCK).stat().st_mtime
    except OSError:
        return 0.0


class StateDir:
    """One state directory. Creating the object touches no file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def agent_folder(self) -> Path:
        """Returns the directory of the agent, created if needed and closed to other users. Raises Misconfigured."""
        with self._writing():
            own_folder(self.path, SHARED_FOLDER)
            own_folder(self.path / AGENT)
        return self.path / AGENT

    def instance_id(self) -> str:
        """Returns the id of this directory's instance, created at the first call."""
        file = self.path / INSTANCE_ID
        try:
            return file.read_text().strip()
        except FileNotFoundError:
            write_atomically(file, secrets.token_hex(4) + "\n", READABLE_FILE)
            return file.read_text().strip()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Holds the directory for one instance while the context is open. Raises Misconfigured with
        the holder's pid.
        """
        descriptor = self._open_lock()
        try:
            self._acquire_lock(descriptor)
            self._remove_endpoint(descriptor, f"{os.getpid()}\n")  # a killed instance may have left its own
            try:
                yield
            finally:
                self._remove_endpoint(descriptor, "")
        finally:
            os.close(descriptor)  # never inherited by children, so this releases the lock

    @contextmanager
    def replica(self, service: str) -> Iterator[str | None]:
        """Yields a name for the single process of a service in this directory, the same after every
        restart. Its holder knows that the previous one is dead. None where another process holds
        it, or the directory is not writable.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = open_owned(self.path / f"{service}.lock", os.O_RDWR | os.O_CREAT)
        except OSError:
            yield None
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name: str | None = f"{socket.gethostname()}-{self.instance_id()}-{service}"
        except OSError:
            name = None
        try:
            yield name
        finally:
            os.close(descriptor)

    def _remove_endpoint(self, lock: int, holder: str) -> None:
        os.ftruncate(lock, 0)
        os.pwrite(lock, holder.encode(), 0)
        self._endpoint_file.unlink(missing_ok=True)

    def holder(self) -> int | None:
        """Returns the pid of the running instance, or None."""
        try:
            descriptor = os.open(self._lock_file, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            raise Misconfigured(f"{self._lock_file} belongs to another user: run as that user") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.pread(descriptor, 32, 0).decode().strip() or "0")
        else:
            return None
        finally:
            os.close(descriptor)

    def announce(self, endpoint: Endpoint) -> None:
        """Store the address of this instance for the CLI. Call only while holding the directory."""
        write_atomically(self._endpoint_file, json.dumps(asdict(endpoint), indent=1) + "\n")

    def running_endpoint(self) -> Endpoint:
        """Returns the address of the running instance. Raises NotFound when none runs; a killed
        one's file is ignored.
        """
        holder = self.holder()
        if holder is None:
            raise NotFound(f"no instance runs in {self.path}: start one with `slackwater up` (or set {VARIABLE})")
        try:
            return Endpoint(**json.loads(self._endpoint_file.read_text()))
        except FileNotFoundError:
            raise NotFound(f"the instance in {self.path} (pid {holder}) is still starting: try again") from None
        except PermissionError:
            raise Misconfigured(f"{self._endpoint_file} belongs to another user: run as that user") from None

    @property
    def _lock_file(self) -> Path:
        return self.path / LOCK

    @property
    def _endpoint_file(self) -> Path:
        return self.path / "endpoint.json"

    def _open_lock(self) -> int:
        with self._writing():
            own_folder(self.path, SHARED_FOLDER)
            return open_owned(self._lock_file, os.O_RDWR | os.O_CREAT, READABLE_FILE)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raises Misconfigured in place of OSError."""
        try:
            yield
        except PermissionError:
            raise Misconfigured(
                f"cannot write {self.path}: run as its owner, or set {VARIABLE} to a directory of your own"
            ) from None
        except OSError as error:  # a file in its place, a read-only or full disk
            raise Misconfigured(
                f"cannot write {self.path}: {error.strerror}; set {VARIABLE} to a directory that can be written"
            ) from None

    def _acquire_lock(self, descriptor: int) -> None:
        """Take the lock, with retries: a reader in `holder` has it for microseconds."""
        deadline = time.monotonic() + LOCK_PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    pid = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
                    raise Misconfigured(
                        f"another instance (pid {pid}) runs in {self.path}: "
                        f"stop it, or set {VARIABLE} to another directory"
                    ) from None
                time.sleep(0.02)
            else:
                return
