"""Knobs: the writable values of a machine, and the declaration of each kind of them.

A `KnobSpec` declares one kind: the cgroup file on v1 and on v2, how a value is rendered and read back, and the value
of an untouched cgroup. Drivers read and write any declared knob, so that a new one needs no driver code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from slackwater.model.tiers import Tier

Value = int | str | None
"""What a knob is set to, in the units of its declaration; None = unlimited."""


class Tree(Enum):
    """Cgroups of the agent that are neither a pod nor a tier: the one that holds all tiers."""

    ROOT = "root"


@dataclass(frozen=True, slots=True)
class ContainerOf:
    """One container of a pod of Kubernetes, as it runs now."""

    pod_uid: str
    name: str


Target = str | Tier | Tree | ContainerOf
"""The cgroup that a knob belongs to: a pod by its uid, a whole tier, all tiers together, or a container."""
BUSY = "busy"
"""Why a write is refused that the next sample repeats: v1 cannot reclaim at once what a lower limit asks for."""
READ_REFUSED = "read_refused"
"""Why nothing is known of a file now."""
UNLIMITED: Mapping[Value, str] = MappingProxyType({None: "max"})


@dataclass(frozen=True, slots=True, order=True)
class Knob:
    """One knob of one cgroup: `path` is the file (or its like in a simulation), `field` the name of its KnobSpec."""

    path: str
    field: str


class CgroupFiles(Protocol):
    """The files beside a knob, in the same directory."""

    def read(self, name: str) -> str:
        """The text without the trailing newline. Raises NotFound and Misconfigured as `Driver.read` does."""
        ...

    def exists(self, name: str) -> bool:
        """Whether this kernel has the file."""
        ...


def render_number(value: Value, files: CgroupFiles) -> str:
    """A number, or `max` for None."""
    return "max" if value is None else str(value)


def parse_number(text: str, files: CgroupFiles) -> Value:
    return None if text == "max" else int(text)


def text_as_is(text: str, files: CgroupFiles) -> str:
    return text


@dataclass(frozen=True, slots=True)
class KernelFile:
    """One knob in one version of cgroups: controller, file name and notation.

    `shown` turns the file's text into the knob's exact text, where another file takes part in the value; `writes`
    lists the files to write, in order, where it is more than this one.
    """

    controller: str
    name: str
    render: Callable[[Value, CgroupFiles], str] = render_number
    parse: Callable[[str, CgroupFiles], Value] = parse_number
    shown: Callable[[str, CgroupFiles], str] = text_as_is
    writes: Callable[[str, CgroupFiles], Sequence[tuple[str, str]]] | None = None


@dataclass(frozen=True, slots=True)
class KnobSpec:
    """One kind of knob. `v1` or `v2` is None where that version of cgroups has no such file.

    `default` is what an untouched cgroup holds: a simulated machine begins with it, so that restores lead back
    to it. A restore itself writes the exact previous text from the journal. `words` and `least` are the notation of
    simulated machines: texts that stand for values, and the smallest value that is accepted.
    """

    name: str
    default: Value
    v1: KernelFile | None = None
    v2: KernelFile | None = None
    words: Mapping[Value, str] = field(default_factory=lambda: UNLIMITED)
    least: int | None = None

    def kernel_file(self, pure_v2: bool) -> KernelFile | None:
        return self.v2 if pure_v2 else self.v1

    def plain_text(self, value: Value) -> str:
        """The value as a simulated machine holds it."""
        if value in self.words:
            return self.words[value]
        return str(value if self.least is None or not isinstance(value, int) else max(self.least, value))

    def plain_value(self, text: str) -> Value:
        """The value of a text of a simulated machine. Raises ValueError."""
        known = {word: value for value, word in self.words.items()}
        if text in known:
            return known[text]
        if text.isdecimal():
            return int(text)
        raise ValueError(f"{text!r} is neither a number nor one of {', '.join(known) or 'no words'}")
