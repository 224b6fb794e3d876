"""Bounds of every value that crosses a process boundary, shared by both decoders and the schemas.

Each alias states its bounds twice: for pydantic and the JSON Schema (`annotated_types`), and for msgspec (`Meta`),
which decodes the frequent bodies. A `Rule` covers what neither can express: pydantic calls it during validation, the
msgspec decoder calls `rule_check` of the whole payload afterwards. A test compares the two decoders.

The limits follow from machines, not only from column types: 10,000 cores and 1 PiB per node, 4,096 pods per report.
All integers fit into 64 bits, also as sums over the pods of a node.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Interval, Len
from msgspec import Meta, Struct
from pydantic import BaseModel, FailFast, GetCoreSchemaHandler, GetJsonSchemaHandler, StringConstraints
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

MOST_CPU_MILLI = 10_000_000
"""10,000 cores, above the size of any machine."""
MOST_MEMORY_BYTES = 2**50
"""1 PiB, above the size of any machine."""
MOST_PODS = 4096
"""Pods of one node in one message. A message reaches the broker's limit of 1 MiB at about 1,900 pods."""
MOST_SUM_CPU_MILLI = 10**10
MOST_SUM_MEMORY_BYTES = 2**56
"""Limit of a sum over the pods of a node; a hundred times this value still fits into 64 bits."""
MOST_COUNT = 2**53
"""Limit of counters and generations: the largest integer that a JSON number represents exactly in every language."""
MOST_SAMPLES = 1_000_000
MOST_BYTES_PER_SECOND = 10**15
MOST_RATIO = 1.5
"""A share of time may exceed 1, because the kernel's counters are not read at exactly the same time."""
MOST_SECONDS = 10**10
MOST_STORED = 2**63 - 1
"""The largest value of a bigint column."""
MOST_AMOUNT = float(2**63)
"""Limit of the value of a metric; memory in bytes has the largest values."""
MOST_PRIORITY = 2**31 - 1
MOST_NAME = 512
MOST_TEXT = 262_144
MOST_DOCUMENT = 1_048_576
MOST_LABELS = 1024
MOST_ITEMS = 65_536
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Range of times that every library and column can represent, with room for horizons and leases after the end."""
MOST_DEPTH = 32
"""Nesting levels of a free-form document."""

_NO_CONTROL = r"^[^\x00-\x1f]*$"


def is_line(text: str) -> bool:
    """Whether a name or label may be shown and stored: one line of printable characters, at most MOST_NAME."""
    return len(text) <= MOST_NAME and text.isprintable()


class ValueRule:
    """A bound that is checked in Python. Pydantic calls `problem` after it has validated the type."""

    __slots__ = ()

    def problem(self, value: Any) -> str | None:
        """What is wrong with the value and what is allowed; None if the value is valid."""
        raise NotImplementedError

    def schema(self) -> Mapping[str, Any]:
        """The keywords that the rule adds to the JSON Schema."""
        return {}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._validate, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(core), **self.schema()}

    def _validate(self, value: Any) -> Any:
        problem = self.problem(value)
        if problem is not None:
            raise PydanticCustomError("out_of_bounds", "{problem}", {"problem": problem})
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class TimeSpan(ValueRule):
    """A time with an offset, `EARLIEST` <= time < `LATEST`."""

    def problem(self, value: datetime) -> str | None:
        if value.tzinfo is None:
            return f"{value.isoformat()} has no offset; an RFC 3339 time with one is needed"
        if EARLIEST <= value < LATEST:
            return None
        return f"{value.isoformat()} is outside of {EARLIEST.isoformat()} to {LATEST.isoformat()}"

    def schema(self) -> Mapping[str, Any]:
        return {"formatMinimum": EARLIEST.isoformat(), "formatExclusiveMaximum": LATEST.isoformat()}


@dataclasses.dataclass(frozen=True, slots=True)
class OfOneMachine(ValueRule):
    """Resources within the limits of one machine: 0 to MOST_CPU_MILLI and 0 to MOST_MEMORY_BYTES."""

    def problem(self, value: Any) -> str | None:
        if 0 <= value.cpu_milli <= MOST_CPU_MILLI and 0 <= value.memory_bytes <= MOST_MEMORY_BYTES:
            return None
        return (
            f"{value.cpu_milli} milli-cores and {value.memory_bytes} bytes are outside of what a machine has: "
            f"0 to {MOST_CPU_MILLI} milli-cores, 0 to {MOST_MEMORY_BYTES} bytes"
        )

    def schema(self) -> Mapping[str, Any]:
        return {
            "description": f"At most {MOST_CPU_MILLI} milli-cores and {MOST_MEMORY_BYTES} bytes, none below zero.",
        }


@dataclasses.dataclass(frozen=True, slots=True)
class FreeForm(ValueRule):
    """JSON of any shape, bounded in depth, number of values, length of texts and size of numbers."""

    def problem(self, value: Any) -> str | None:
        """Level by level, because one list of a level's values is three times as fast as one of values to visit."""
        level, left = [value], MOST_ITEMS
        for _ in range(MOST_DEPTH):
            left -= len(level)
            if left < 0:
                return f"more than {MOST_ITEMS} values"
            containers = [item for item in level if isinstance(item, _CONTAINERS)]
            if len(containers) < len(level):
                problem = _leaves_problem([item for item in level if not isinstance(item, _CONTAINERS)])
                if problem is not None:
                    return problem
            level = []
            for container in containers:
                level += container
                if isinstance(container, dict):
                    level += container.values()
                if len(level) > left:
                    return f"more than {MOST_ITEMS} values"
            if not level:
                return None
        return f"nested more than {MOST_DEPTH} levels deep"

    def schema(self) -> Mapping[str, Any]:
        return {"description": f"JSON of at most {MOST_DEPTH} levels and {MOST_ITEMS} values."}


_CONTAINERS = (dict, list, tuple)
_NUMBERS = frozenset({int, float, bool})


def _leaves_problem(leaves: list[Any]) -> str | None:
    """Of many plain values together, because one by one takes five times as long; else the first that is wrong."""
    numbers = [leaf for leaf in leaves if type(leaf) in _NUMBERS]
    texts = [leaf for leaf in leaves if type(leaf) is str]
    others = len(leaves) - len(numbers) - len(texts) - leaves.count(None)
    are_bounded = min(numbers, default=0) >= -MOST_AMOUNT and max(numbers, default=0) <= MOST_AMOUNT
    are_numbers = not any(map(math.isnan, (leaf for leaf in numbers if type(leaf) is float)))
    if not others and are_bounded and are_numbers and max(map(len, texts), default=0) <= MOST_DOCUMENT:
        return None
    return next(filter(None, map(_leaf_problem, leaves)), None)


def _leaf_problem(value: Any) -> str | None:
    if isinstance(value, str):
        return None if len(value) <= MOST_DOCUMENT else f"a text of {len(value)} characters"
    if isinstance(value, int | float):
        return None if -MOST_AMOUNT <= value <= MOST_AMOUNT else "a number beyond 2^63, or none"
    if value is None:
        return None
    return f"a value of type {type(value).__name__}, which JSON does not have"


CpuMilli = Annotated[int, Interval(ge=0, le=MOST_CPU_MILLI), Meta(ge=0, le=MOST_CPU_MILLI)]
"""Milli-cores of one machine or pod."""
MachineAmount = Annotated[int, Interval(ge=0, le=MOST_MEMORY_BYTES), Meta(ge=0, le=MOST_MEMORY_BYTES)]
"""Milli-cores or bytes, for types that hold either; `model.plausibility` checks it against the node's capacity."""
CpuMilliSum = Annotated[
    int,
    Interval(ge=-MOST_SUM_CPU_MILLI, le=MOST_SUM_CPU_MILLI),
    Meta(ge=-MOST_SUM_CPU_MILLI, le=MOST_SUM_CPU_MILLI),
]
"""Milli-cores summed over the pods of a node; a difference may be negative."""
MemoryBytesSum = Annotated[
    int,
    Interval(ge=-MOST_SUM_MEMORY_BYTES, le=MOST_SUM_MEMORY_BYTES),
    Meta(ge=-MOST_SUM_MEMORY_BYTES, le=MOST_SUM_MEMORY_BYTES),
]
AnyAmount = Annotated[int, Interval(ge=-MOST_STORED, le=MOST_STORED), Meta(ge=-MOST_STORED, le=MOST_STORED)]
"""A term or result of a decision, in the unit that the record names; fits a bigint column."""
Count = Annotated[int, Interval(ge=0, le=MOST_COUNT), Meta(ge=0, le=MOST_COUNT)]
Samples = Annotated[int, Interval(ge=0, le=MOST_SAMPLES), Meta(ge=0, le=MOST_SAMPLES)]
"""Samples in one window."""
WindowSeconds = Annotated[int, Interval(ge=1, le=86_400), Meta(ge=1, le=86_400)]
PodPriority = Annotated[int, Interval(ge=-MOST_PRIORITY, le=MOST_PRIORITY), Meta(ge=-MOST_PRIORITY, le=MOST_PRIORITY)]
BytesPerSecond = Annotated[int, Interval(ge=0, le=MOST_BYTES_PER_SECOND), Meta(ge=0, le=MOST_BYTES_PER_SECOND)]
Ratio = Annotated[float, Interval(ge=0, le=MOST_RATIO), Meta(ge=0, le=MOST_RATIO)]
"""A share; see MOST_RATIO."""
Seconds = Annotated[float, Interval(ge=0, le=MOST_SECONDS), Meta(ge=0, le=MOST_SECONDS)]
SecondsDifference = Annotated[
    float, Interval(ge=-MOST_SECONDS, le=MOST_SECONDS), Meta(ge=-MOST_SECONDS, le=MOST_SECONDS)
]
Amount = Annotated[float, Interval(ge=-MOST_AMOUNT, le=MOST_AMOUNT), Meta(ge=-MOST_AMOUNT, le=MOST_AMOUNT)]
"""The value of a metric."""
Name = Annotated[str, StringConstraints(max_length=MOST_NAME, pattern=_NO_CONTROL), Meta(max_length=MOST_NAME)]
"""A name or identifier of one line. msgspec needs no pattern, because bodies with escapes go to pydantic."""
Key = Annotated[str, StringConstraints(max_length=MOST_NAME), Meta(max_length=MOST_NAME)]
"""A key of a mapping."""
Text = Annotated[str, StringConstraints(max_length=MOST_TEXT), Meta(max_length=MOST_TEXT)]
"""Text for people, and values of annotations."""
DocumentText = Annotated[str, StringConstraints(max_length=MOST_DOCUMENT), Meta(max_length=MOST_DOCUMENT)]
"""A document as text, at most as large as a message."""
Moment = Annotated[datetime, Meta(tz=True), TimeSpan()]
JsonDocument = Annotated[dict[str, Any], Len(0, MOST_ITEMS), FreeForm()]
Labels = Annotated[dict[Key, Key], Len(0, MOST_LABELS), Meta(max_length=MOST_LABELS)]
Annotations = Annotated[dict[Key, Text], Len(0, MOST_LABELS), Meta(max_length=MOST_LABELS)]
T = TypeVar("T")
Items = Annotated[tuple[T, ...], Len(0, MOST_PODS), FailFast(), Meta(max_length=MOST_PODS)]
"""A list in an event: pods, disks, terms of a decision. Its first invalid item ends the validation."""
Mapped = Annotated[dict[Key, T], Len(0, MOST_LABELS), Meta(max_length=MOST_LABELS)]
"""Values by name."""

Check = Callable[[Any], str | None]


def rule_check(kind: Any) -> Check | None:
    """A function that applies all `Rule`s inside a type to a value and returns the first problem with its path.

    None if the type has no rules. Callers build it once per type; parts of the type without rules are not visited.
    """
    origin = get_origin(kind)
    if origin is Annotated:
        return _all_of([*_rules_in(kind.__metadata__), rule_check(kind.__origin__)])
    if origin in (Union, UnionType):
        return _optional([rule_check(part) for part in get_args(kind) if part is not type(None)])
    if origin in (tuple, list):
        return _each(rule_check(get_args(kind)[0]))
    if origin is dict:
        return _each_value(rule_check(get_args(kind)[1]))
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel | Struct)):
        return _fields(kind)
    return None


def _rules_in(metadata: tuple[Any, ...]) -> Iterator[Check]:
    return (item.problem for item in metadata if isinstance(item, ValueRule))


def _all_of(checks: list[Check | None]) -> Check | None:
    own = [check for check in checks if check is not None]
    if len(own) <= 1:
        return own[0] if own else None
    return lambda value: next((problem for check in own if (problem := check(value)) is not None), None)


def _optional(checks: list[Check | None]) -> Check | None:
    """The check of `X | None`; no event has a union of several types with rules."""
    inner = _all_of(checks)
    return None if inner is None else lambda value: None if value is None else inner(value)


def _each(inner: Check | None) -> Check | None:
    if inner is None:
        return None
    return lambda values: next(
        (f"{place}: {problem}" for place, value in enumerate(values) if (problem := inner(value)) is not None), None
    )


def _each_value(inner: Check | None) -> Check | None:
    if inner is None:
        return None
    return lambda values: next(
        (f"{name}: {problem}" for name, value in values.items() if (problem := inner(value)) is not None), None
    )


def _fields(shape: type) -> Check | None:
    checks = [
        (name, check)
        for name, kind in get_type_hints(shape, include_extras=True).items()
        if get_origin(kind) is not None or isinstance(kind, type)
        if (check := rule_check(kind)) is not None
    ]
    if not checks:
        return None

    def problem_of(value: Any) -> str | None:
        for name, check in checks:
            problem = check(getattr(value, name))
            if problem is not None:
                return f"{name}: {problem}"
        return None

    return problem_of
