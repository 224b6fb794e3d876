"""Reads and writes every declared knob of the agent's cgroups, on v1 and v2."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from slackwater.agent.adapters.linux.places import CgroupPlaces
from slackwater.agent.domain.knobs import BUSY, READ_REFUSED, KernelFile, Knob, KnobSpec, Value
from slackwater.model.errors import Misconfigured, NotFound

_GONE = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})
"""What the kernel says of a cgroup that is not there any more. Anything else says nothing about the file."""


class KernelFiles(Protocol):
    """The files of the kernel, or of a simulated one. Raises OSError with the kernel's errno."""

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None: ...

    def exists(self, path: str) -> bool: ...

    def is_writable(self, path: str) -> bool:
        """Whether this process may open the file for writing; nothing is written."""
        ...


class MountedFiles:
    """The cgroup trees of this machine."""

    __slots__ = ()

    def read(self, path: str) -> str:
        return Path(path).read_text()

    def write(self, path: str, text: str) -> None:
        _write(path, text)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)  # noqa: PTH110 - a kubelet's pods are looked for at every sample

    def is_writable(self, path: str) -> bool:
        return os.access(path, os.W_OK)


MOUNTED_FILES = MountedFiles()


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """See slackwater.agent.domain.knobs.CgroupFiles: the files of one directory."""

    directory: str
    kernel: KernelFiles = MOUNTED_FILES

    def read(self, name: str) -> str:
        path = f"{self.directory}/{name}"
        try:
            return self.kernel.read(path).removesuffix("\n")
        except OSError as error:
            if error.errno in _GONE:
                raise NotFound(f"{path} is gone ({error.strerror})", field=path) from error
            raise Misconfigured(
                f"{path} cannot be read now ({error.strerror})", code=READ_REFUSED, field=path
            ) from error

    def exists(self, name: str) -> bool:
        return self.kernel.exists(f"{self.directory}/{name}")


@dataclass(slots=True)
class KnobFiles:
    """Texts of knobs whose kind is not declared (a journal of another version) are read and written as they are."""

    layout: CgroupPlaces
    specs: Sequence[KnobSpec]
    kernel: KernelFiles = MOUNTED_FILES
    _files: dict[str, KernelFile] = field(init=False)

    def __post_init__(self) -> None:
        files = {spec.name: spec.kernel_file(self.layout.hierarchy.pure_v2) for spec in self.specs}
        self._files = {name: file for name, file in files.items() if file is not None}

    def knob(self, spec: KnobSpec, cgroup: str) -> Knob:
        """Where this knob of a cgroup is written. Raises NotFound where this kernel has no such file."""
        file = self._files.get(spec.name)
        if file is None:
            raise NotFound(f"cgroup {self.layout.hierarchy.version} has no {spec.name}", field=spec.name)
        return Knob(f"{self.layout.directory(file.controller, cgroup)}/{file.name}", spec.name)

    def render(self, knob: Knob, value: Value) -> str:
        return self._files[knob.field].render(value, self._beside(knob.path))

    def parse(self, knob: Knob, text: str) -> Value:
        return self._files[knob.field].parse(text, self._beside(knob.path))

    def read(self, knob: Knob) -> str:
        path, file = self._inside(knob), self._files.get(knob.field)
        files = self._beside(path)
        text = files.read(path.rpartition("/")[2])
        return text if file is None else file.shown(text, files)

    def write(self, knob: Knob, text: str) -> None:
        path, file = self._inside(knob), self._files.get(knob.field)
        directory, _, name = path.rpartition("/")
        writes: Sequence[tuple[str, str]] = ((name, text),)
        if file is not None and file.writes is not None:
            writes = file.writes(text, self._beside(path))
        try:
            for beside, value in writes:
                self.kernel.write(f"{directory}/{beside}", value)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise NotFound(f"{path} is gone", field=path) from error
        except OSError as error:
            if not self.kernel.exists(path):
                raise NotFound(f"{path} is gone", field=path) from error
            code = BUSY if error.errno == errno.EBUSY else "write_refused"
            raise Misconfigured(
                f"{path}: the kernel refused {text!r} ({error.strerror})", code=code, field=path
            ) from error

    def _beside(self, path: str) -> DirectoryFiles:
        return DirectoryFiles(path.rpartition("/")[0], self.kernel)

    def _inside(self, knob: Knob) -> str:
        """The file, checked to lie where this agent may write: a journal is input, too."""
        if not self.layout.holds(knob.path):
            raise NotFound(f"{knob.path} is outside of {self.layout.root}", field=knob.path)
        return knob.path


def _write(file: str, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
