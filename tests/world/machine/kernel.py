"""The kernel of one simulated machine: cgroup trees as files, the programs that wrote
them, and what an untouched file would hold."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.world.machine.cgroups import CPU_V1, MEMORY_V1, V2, Controller, Group, refused

from slackwater.agent.adapters.linux.hierarchy import Hierarchy

MOUNT = "/sys/fs/cgroup"
_V1: Mapping[str, Controller] = {f"{MOUNT}/cpu": CPU_V1, f"{MOUNT}/memory": MEMORY_V1}
_V2: Mapping[str, Controller] = {MOUNT: V2}
AGENT, FOREIGN = "agent", "foreign"


@dataclass(frozen=True, slots=True)
class Write:
    """A file was written: by the agent, or by a program that is not of Slackwater."""

    path: str
    before: str
    after: str
    by: str


@dataclass(slots=True)
class Kernel:
    """See slackwater.agent.adapters.linux.knob_files.KernelFiles.

    `called` comes before each read and write of the agent and returns the errno of a refusal, or None; a pod may
    vanish in it. `wrote` comes after each write, also of others. `settle` brings usage up to the present.
    """

    pure_v2: bool
    settle: Callable[[], None]
    called: Callable[[str, str], int | None] = lambda operation, path: None
    wrote: Callable[[Write], None] = lambda write: None
    _places: dict[str, tuple[Group, Controller]] = field(default_factory=dict)
    _groups: dict[str, Group] = field(default_factory=dict)
    _plain: dict[str, str] = field(default_factory=dict)
    """What each file held before the agent first wrote it, or what another program has written since. Files that the
    agent never wrote are not in it."""

    @property
    def hierarchy(self) -> Hierarchy:
        """The trees as the agent's layout sees them."""
        if self.pure_v2:
            tree = Path(MOUNT)
            return Hierarchy(tree, tree, tree, tree, pure_v2=True)
        cpu, memory = Path(f"{MOUNT}/cpu"), Path(f"{MOUNT}/memory")
        return Hierarchy(cpu, cpu, memory)

    # the agent's files

    def read(self, path: str) -> str:
        number = self.called("read", path)
        if number is not None:
            raise refused(number, path)
        directory, _, name = path.rpartition("/")
        if name.startswith("memory."):
            self.settle()  # its pod may end in this
        place = self._places.get(directory)
        reader = None if place is None else place[1].readers.get(name)
        if place is None or reader is None:
            raise refused(errno.ENOENT, path)
        return reader(place[0])

    def write(self, path: str, text: str) -> None:
        number = self.called("write", path)
        if number is not None:
            raise refused(number, path)
        self.write_as(AGENT, path, text)

    def exists(self, path: str) -> bool:
        directory, _, name = path.rpartition("/")
        place = self._places.get(directory)
        return place is not None and name in place[1].readers

    def is_writable(self, path: str) -> bool:
        return self.exists(path)

    # the machine

    def write_as(self, by: str, path: str, text: str) -> None:
        """Write a file as one program or another. Raises OSError as the kernel does."""
        self.settle()  # its pod may end in this
        directory, _, name = path.rpartition("/")
        place = self._places.get(directory)
        if place is None or name not in place[1].readers:
            raise refused(errno.ENOENT, path)
        group, controller = place
        writer = controller.writers.get(name)
        if writer is None:
            raise refused(errno.EACCES, path)
        before = {file: controller.readers[file](group) for file in _changed_with(name, controller.readers)}
        writer(group, text.strip())
        for file, old in before.items():
            self._note(by, f"{directory}/{file}", old, controller.readers[file](group))

    def _note(self, by: str, path: str, before: str, after: str) -> None:
        if by == AGENT:
            if before != after:
                self._plain.setdefault(path, before)
        elif before != after or path in self._plain:
            self._plain[path] = after
        self.wrote(Write(path, before, after, by))

    def make(self, name: str) -> Group:
        """Create a cgroup in every tree; returns it. One that is there stays."""
        group = self._groups.get(name)
        if group is None:
            above = self._groups.get(name.rpartition("/")[0])
            group = self._groups[name] = Group(name, above)
            if above is not None:
                above.children[name] = group
            for tree, controller in self._trees().items():
                self._places[f"{tree}/{name}"] = (group, controller)
        return group

    def remove(self, name: str) -> bool:
        """Remove a cgroup; False while others are in it."""
        group = self._groups.get(name)
        if group is None:
            return True
        if group.children:
            return False
        del self._groups[name]
        if group.parent is not None:
            del group.parent.children[name]
        for tree in self._trees():
            place = f"{tree}/{name}"
            del self._places[place]
            for path in [path for path in self._plain if path.startswith(f"{place}/")]:
                del self._plain[path]
        return True

    def group(self, name: str) -> Group | None:
        return self._groups.get(name)

    def group_at(self, path: str) -> Group | None:
        """Returns the cgroup of a file."""
        place = self._places.get(path.rpartition("/")[0])
        return None if place is None else place[0]

    def clear(self) -> None:
        """A reboot: no cgroup is left."""
        self._places.clear()
        self._groups.clear()
        self._plain.clear()

    def differences(self) -> dict[str, tuple[str, str]]:
        """By path, files that hold neither what they held before the agent nor what another program wrote later: the
        text expected, and the text now."""
        found = {}
        for path, plain in self._plain.items():
            directory, _, name = path.rpartition("/")
            group, controller = self._places[directory]
            if (now := controller.readers[name](group)) != plain:
                found[path] = (plain, now)
        return found

    def writable(self) -> list[str]:
        """All files that can be written, in order."""
        return [
            f"{directory}/{name}" for directory, (_, controller) in self._places.items() for name in controller.writers
        ]

    def text(self, path: str) -> str:
        """The text of a file for observers: never refused, counted by nothing. Raises KeyError if there is none."""
        directory, _, name = path.rpartition("/")
        group, controller = self._places[directory]
        return controller.readers[name](group)

    def _trees(self) -> Mapping[str, Controller]:
        return _V2 if self.pure_v2 else _V1


def _changed_with(name: str, readers: Mapping[str, object]) -> tuple[str, ...]:
    """The files whose text a write may change: being idle changes what the weight shows."""
    return (
        tuple(file for file in ("cpu.idle", "cpu.shares", "cpu.weight") if file in readers)
        if name == "cpu.idle"
        else (name,)
    )
