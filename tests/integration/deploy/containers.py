"""Containers without images: the namespaces, mounts, users and capabilities that a runtime would give a process.

What is real: mount, network and process namespaces, a root file system of its own (read-only where asked for), tmpfs
and bind mounts at the very paths, user, groups and capabilities, no_new_privs, names that resolve to the neighbours,
ports. What is not: the image (see images.py), cgroup limits, the logging driver, restart after a crash.
"""

from __future__ import annotations

import http.client
import itertools
import os
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ctypes import CDLL, get_errno
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_SECONDS = 120.0
TOOLS = ("unshare", "nsenter", "setpriv", "chroot", "mount", "ip", "sleep")
HOST_FOLDERS = ("usr", "bin", "sbin", "lib", "lib64", "lib32")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
NEWNET = 0x40000000
DOCKER_CAPABILITIES = (
    *("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service"),
    *("net_raw", "sys_chroot", "mknod", "audit_write", "setfcap"),
)
"""What Docker leaves a container that drops nothing."""


class Failed(AssertionError):
    """A container did otherwise than it should; the message ends with what it wrote."""


def why_not_here() -> str | None:
    """Why this machine cannot run containers of this kind, or None."""
    if os.geteuid() != 0:
        return "needs root: it makes namespaces, bridges and mounts"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"needs {', '.join(missing)}"
    probe = "ip link add sw-probe type bridge && ip link add sw-a type veth peer name sw-b && mount -t tmpfs none /mnt"
    done = subprocess.run(["unshare", "--mount", "--net", "sh", "-c", probe], check=False, capture_output=True)
    return f"this machine refuses namespaces: {done.stderr.decode()[-200:]}" if done.returncode else None


@dataclass(frozen=True)
class Bind:
    """A file or folder of this machine, seen in a container."""

    source: Path
    read_only: bool = False
    along: bool = False
    """With the mounts below it."""


@dataclass(frozen=True)
class Container:
    """The command, its user, and its mounts."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    user: int = 0
    group: int = 0
    groups: Sequence[int] = ()
    capabilities: Sequence[str] = DOCKER_CAPABILITIES
    binds: Mapping[str, Bind] = field(default_factory=dict)
    tmpfs: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """Of the image: path → text; executable where it begins with `#!`."""
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of the image: path → owner and mode."""
    folder: str = "/"
    read_only: bool = False
    no_new_privileges: bool = False
    network: bool = True
    host_processes: bool = False
    """It sees the machine's processes (Docker's `pid: host`)."""


class Running:
    """A container that was started."""

    def __init__(self, container: Container, process: subprocess.Popen[bytes], pid: int, folder: Path) -> None:
        self.container = container
        self.pid = pid
        self._process = process
        self._folder = folder
        self.address = ""

    @property
    def output(self) -> str:
        return (self._folder / "stdout").read_text(errors="replace")

    @property
    def complaints(self) -> str:
        return (self._folder / "stderr").read_text(errors="replace")

    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Raises Failed when it does not end in time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self} did not end within {seconds:g} s") from None

    def ended_well(self) -> None:
        if status := self.wait():
            raise Failed(f"{self} ended with {status}")

    def stop(self, seconds: float = 20.0) -> int:
        """As `docker stop`: SIGTERM to the first process, and the exit status."""
        if self.status() is None:
            os.kill(self.pid, signal.SIGTERM)
        return self.wait(seconds)

    def kill(self) -> None:
        """The first process by itself: once it has changed its user, the end of `unshare` would not reach it."""
        if self.status() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()

    def execute(self, command: Sequence[str], seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
        """As `docker exec`: in its namespaces, as its user, with its environment."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--net", "--pid", "--root"]
        whole = [*enter, *_as(self.container), *command]
        return subprocess.run(
            whole, check=False, capture_output=True, text=True, env=dict(self.container.environment), timeout=seconds
        )

    def __str__(self) -> str:
        said = f"{self.output[-1500:]}\n{self.complaints[-3000:]}".strip()
        return f"container {self.container.name} ({' '.join(self.container.command)}), which said:\n{said}\n"


class Network:
    """A bridge in a network namespace of its own; everything ends with the context."""

    def __init__(self, folder: Path, aliases: Mapping[str, Sequence[str]]) -> None:
        """`aliases`: for each container its names; addresses follow from the order."""
        self._folder = folder
        self._addresses = {name: f"10.89.0.{number}" for number, name in enumerate(aliases, start=10)}
        self._hosts = "".join(f"{self._addresses[name]} {' '.join(names)}\n" for name, names in aliases.items())
        self._holder: subprocess.Popen[bytes] | None = None
        self._started: list[Running] = []
        self._links = itertools.count(1)

    def __enter__(self) -> Network:
        command = [*_until_we_end(), _tool("unshare"), "--net", _tool("sleep"), "infinity"]
        self._holder = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        ours = Path("/proc/self/ns/net").readlink()
        until(lambda: _namespace(self.holder) not in (None, ours), "a network namespace")
        self._ip(self.holder, "link add br0 type bridge", "addr add 10.89.0.1/24 dev br0", "link set br0 up")
        self._ip(self.holder, "link set lo up")
        return self

    def __exit__(self, *_: object) -> None:
        for running in reversed(self._started):
            running.kill()
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()

    @property
    def holder(self) -> int:
        assert self._holder is not None
        return self._holder.pid

    def start(self, container: Container) -> Running:
        """Run it; returns when its first process is about to begin."""
        home = self._folder / f"{container.name}-{next(self._links)}"
        script = _prepare(home, container, self._hosts)
        namespaces = ["--mount", "--net", *(() if container.host_processes else ("--pid",)), "--fork", "--kill-child"]
        with (home / "stdout").open("wb") as out, (home / "stderr").open("wb") as err:
            process = subprocess.Popen(
                [*_until_we_end(), _tool("unshare"), *namespaces, "/bin/sh", "-c", script],
                stdin=subprocess.PIPE, stdout=out, stderr=err, env=dict(container.environment), start_new_session=True,
            )  # fmt: skip
        assert process.stdin is not None
        running = Running(container, process, _only_child(process), home)
        self._started.append(running)
        self._ip(running.pid, "link set lo up")
        if container.network:
            self._connect(running)
        process.stdin.write(b"\n")
        process.stdin.close()
        return running

    def dial(self, address: str, port: int) -> socket.socket:
        """A connection from the bridge's side, where Docker's published ports come from. Raises OSError."""
        found: list[socket.socket | OSError] = []

        def enter_and_connect() -> None:  # a thread has a network namespace of its own
            try:
                with Path(f"/proc/{self.holder}/ns/net").open() as namespace:
                    if CDLL(None, use_errno=True).setns(namespace.fileno(), NEWNET):
                        raise OSError(get_errno(), "setns")
                found.append(socket.create_connection((address, port), timeout=60))
            except OSError as error:
                found.append(error)

        thread = threading.Thread(target=enter_and_connect)
        thread.start()
        thread.join()
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]

    def get(self, running: Running, port: int, path: str, token: str | None = None) -> tuple[int, bytes]:
        """Status and body of a GET. Raises OSError."""
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.sock = self.dial(running.address, port)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def beside(self, command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of this machine in the network of the containers."""
        whole = ["nsenter", f"--net=/proc/{self.holder}/ns/net", *command]
        given = {**os.environ, **environment}
        return subprocess.run(whole, check=False, capture_output=True, text=True, env=given, timeout=PATIENCE_SECONDS)

    def _connect(self, running: Running) -> None:
        name, link = running.container.name, f"veth{next(self._links)}"
        running.address = self._addresses[name]
        self._ip(
            self.holder,
            f"link add {link} type veth peer name eth0 netns {running.pid}",
            f"link set {link} master br0",
            f"link set {link} up",
        )
        self._ip(running.pid, f"addr add {running.address}/24 dev eth0", "link set eth0 up")

    def _ip(self, pid: int, *commands: str) -> None:
        enter = ["nsenter", "--target", str(pid), "--net", "--", _tool("ip"), "-batch", "-"]
        done = subprocess.run(enter, check=False, capture_output=True, text=True, input="\n".join(commands))
        if done.returncode:
            raise Failed(f"ip {commands}: {done.stderr}")


def until(holds: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait for a condition. Raises Failed that says what did not come."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)


def _prepare(home: Path, container: Container, hosts: str) -> str:
    """The root file system's skeleton, and the script that mounts the rest on it and becomes the command."""
    root = home / "root"
    _skeleton(root, container, hosts)
    steps = ["set -e", f"{_tool('mount')} --make-rprivate /", _bind(root, root), *_host_folders(root)]
    for device in DEVICES:
        (root / "dev" / device).touch()
        steps.append(_bind(Path("/dev") / device, root / "dev" / device))
    steps.append(_tmpfs(root, "/dev/shm", "size=128m"))
    steps += [_tmpfs(root, target, options) for target, options in container.tmpfs.items()]
    for target in sorted(container.binds):
        steps.append(_bind_of(root, target, container.binds[target], container.tmpfs))
    steps.append(f"{_tool('mount')} -t proc proc {root}/proc")
    if container.read_only:
        steps.append(f"{_tool('mount')} -o remount,bind,ro {root}")
    become = ["exec", _tool("chroot"), str(root), *_as(container), *container.command]
    return "\n".join([*steps, "read ready", f"{shlex.join(become)} </dev/null"])


def _skeleton(root: Path, container: Container, hosts: str) -> None:
    """What the image holds that does not lie in folders of this machine."""
    etc = {
        "/etc/hosts": f"127.0.0.1 localhost {container.name}\n{hosts}",
        "/etc/passwd": "root:x:0:0::/root:/bin/sh\npostgres:x:999:999::/tmp:/bin/sh\nslackwater:x:65532:65532::/tmp:\n",
        "/etc/group": "root:x:0:\npostgres:x:999:\nslackwater:x:65532:\n",
        "/etc/nsswitch.conf": "hosts: files\n",
    }
    for folder in ("proc", "dev/shm", "etc/ssl", "tmp", "run", "var/lib", "sys"):
        _folder(root, folder)
    for path, text in {**etc, **container.files}.items():
        file = _folder(root, Path(path).parent) / Path(path).name
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    for path, target in container.links.items():
        (_folder(root, Path(path).parent) / Path(path).name).symlink_to(target)
    for path, (owner, mode) in container.folders.items():
        made = _folder(root, path)
        os.chown(made, owner, owner)
        made.chmod(mode)


def _host_folders(root: Path) -> list[str]:
    steps = []
    for name in HOST_FOLDERS:
        if (host := Path("/") / name).is_symlink():
            (root / name).symlink_to(host.readlink())
        elif host.is_dir():
            steps.append(_bind(host, _folder(root, name), read_only=True))
    if Path("/etc/ssl").is_dir():
        steps.append(_bind(Path("/etc/ssl"), root / "etc/ssl", read_only=True))
    return steps


def _as(container: Container) -> list[str]:
    bounding = ",".join(["-all", *(f"+{name.lower()}" for name in container.capabilities)])
    groups = ["--groups", ",".join(map(str, container.groups))] if container.groups else ["--clear-groups"]
    privileges = ["--no-new-privs"] if container.no_new_privileges else []
    who = ["--reuid", str(container.user), "--regid", str(container.group), *groups]
    # Ambient and inheritable capabilities stay empty: a user other than root has none, as in a container.
    rights = ["--inh-caps", "-all", "--bounding-set", bounding, *privileges]
    # The folder first: a runtime goes there while it may still do everything.
    return [
        "/usr/bin/env",
        f"--chdir={container.folder}",
        "/usr/bin/setpriv",
        "--pdeathsig",
        "KILL",
        *who,
        *rights,
        "--",
    ]


def _bind_of(root: Path, target: str, bind: Bind, tmpfs: Mapping[str, str]) -> str:
    inside = root / target.lstrip("/")
    make = []
    if any(Path(target).is_relative_to(one) for one in tmpfs):
        make = [f"mkdir -p {inside}"]
    elif bind.source.is_dir():
        _folder(root, target)
    else:
        (_folder(root, Path(target).parent) / Path(target).name).touch()
    return "\n".join([*make, _bind(bind.source, inside, read_only=bind.read_only, along=bind.along)])


def _bind(source: Path, target: Path, *, read_only: bool = False, along: bool = False) -> str:
    how = "--rbind" if along else "--bind"
    lines = [shlex.join([_tool("mount"), how, str(source), str(target)])]
    if read_only:
        lines.append(shlex.join([_tool("mount"), "-o", "remount,bind,ro", str(target)]))
    return "\n".join(lines)


def _tmpfs(root: Path, target: str, options: str) -> str:
    inside = _folder(root, target)
    given = options if "mode=" in options else ",".join(filter(None, [options, "mode=1777"]))
    return shlex.join([_tool("mount"), "-t", "tmpfs", "-o", given, "tmpfs", str(inside)])


def _folder(root: Path, path: str | Path) -> Path:
    folder = root
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    for part in Path(str(path).lstrip("/")).parts:
        folder = folder / part
        if not folder.exists():
            folder.mkdir()
            folder.chmod(0o755)
    return folder


def _until_we_end() -> list[str]:
    return [_tool("setpriv"), "--pdeathsig", "KILL", "--"]


def _tool(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, name
    return found


def _namespace(pid: int) -> Path | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").readlink()
    return None


def _only_child(process: subprocess.Popen[bytes]) -> int:
    """Of `unshare --fork`, which has made all namespaces before it forks."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def found() -> list[str]:
        with suppress(OSError):
            return children.read_text().split()
        return []

    until(lambda: found() or process.poll() is not None, "a first process")
    if not (pids := found()):
        raise Failed(f"unshare ended with {process.poll()}")
    return int(pids[0])
