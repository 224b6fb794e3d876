"""The fields of ColocationStrategy with their defaults and ranges, and their translation into the formulas' types.

Values are the JSON of a `spec`. Unknown names are refused, so that a misspelt field is not ignored. Fields of the
field's ColocationStrategy (koordinator) keep their names; the last ones are specific to Slackwater.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from itertools import islice
from types import MappingProxyType
from typing import Any

from slackwater.model.close_names import closest
from slackwater.model.errors import InvalidInput
from slackwater.model.quantities import Resources
from slackwater.model.records import record
from slackwater.model.shown_values import shown
from slackwater.offers.strategy import CountingPolicy, MarginMode, MidMode, Strategy

Spec = Mapping[str, Any]
MEMORY_POLICIES = ("usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache")


@record(frozen=True, slots=True)
class Field:
    """One field: its default, its check, the allowed values as text, its description, and its JSON Schema."""

    default: Any
    takes: Callable[[Any], bool]
    allowed: str
    about: str
    schema: Mapping[str, Any] = field(default_factory=dict)


_MOST_PERCENT = 1000
_YEAR_SECONDS, _YEAR_MINUTES = 31_536_000, 525_600
_MOST_WINDOWS = 100_000
_MOST_AMOUNT = 2**53
"""Upper bound of amounts. Within it, percentages of a node fit into 64 bits and times into a date, so that one
oversized number in a document cannot stop the decisions about every node.
"""


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _limited(default: int | None, least: int, most: int, about: str, unit: str = "") -> Field:
    def takes(value: Any) -> bool:
        return (value is None and default is None) or _whole(value, least, most)

    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Field(default, takes, f"a whole number{unit} from {least} to {most}", about, schema)


def _percent(default: int | None, about: str, *, above: bool = False) -> Field:
    return _limited(default, 0, _MOST_PERCENT if above else 100, about)


def _count(default: int, most: int, about: str) -> Field:
    return _limited(default, 1, most, about)


def _seconds(default: int, about: str) -> Field:
    return _limited(default, 0, _YEAR_SECONDS, about, " of seconds")


def _one_of(default: str, values: tuple[str, ...], about: str) -> Field:
    allowed_texts, schema = (
        [str(value) for value in values],
        {"type": "string", "enum": [str(value) for value in values]},
    )
    return Field(
        default,
        lambda value: isinstance(value, str) and value in allowed_texts,
        "one of " + ", ".join(allowed_texts),
        about,
        schema,
    )


def _flag(default: bool, about: str) -> Field:
    return Field(default, lambda value: isinstance(value, bool), "true or false", about, {"type": "boolean"})


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def _are_durations(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        isinstance(duration, str) and duration[:-1].isdecimal() and duration[-1] in "smh" for duration in value
    )


_POLICIES, _MODES = tuple(CountingPolicy), tuple(MidMode)

FIELDS: Mapping[str, Field] = {
    "enable": _flag(False, "whether anything is offered; false in `default` disables every node"),
    "metricAggregateDurationSeconds": _count(300, _YEAR_SECONDS, "period over which usage is averaged"),
    "metricReportIntervalSeconds": _count(60, _YEAR_SECONDS, "interval of a node's reports"),
    "metricAggregatePolicy": Field(
        ("5m", "10m", "30m"),
        _are_durations,
        "a list of durations like 5m",
        "additional aggregation windows",
        {"type": "array", "items": {"type": "string", "pattern": "^[0-9]+[smh]$"}},
    ),
    "metricMemoryCollectPolicy": _one_of("usageWithoutPageCache", MEMORY_POLICIES, "definition of used memory"),
    "cpuReclaimThresholdPercent": _percent(60, "share of CPU that may be in use; above 100 over-commits", above=True),
    "cpuCalculatePolicy": _one_of("usage", _POLICIES, "how pods of high tiers count"),
    "memoryReclaimThresholdPercent": _percent(65, "share of memory that may be in use", above=True),
    "memoryCalculatePolicy": _one_of("usage", _POLICIES, "how pods of high tiers count"),
    "degradeTimeMinutes": _count(15, _YEAR_MINUTES, "age of usage at which nothing is offered"),
    "updateTimeThresholdSeconds": _count(300, _YEAR_SECONDS, "age at which a small difference is published"),
    "resourceDiffThreshold": Field(
        0.1,
        _is_share,
        "above 0, up to 1",
        "ratio beyond which a difference is published",
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    ),
    "midReclaimMode": _one_of("off", _MODES, "what mid is offered from"),
    "midCPUThresholdPercent": _percent(100, "maximum share of allocatable CPU for mid"),
    "midMemoryThresholdPercent": _percent(100, "maximum share of allocatable memory for mid"),
    "midUnallocatedPercent": _percent(0, "share of unrequested resources added to mid"),
    "midStaticCPUReservedPercent": _percent(0, "mid's share of CPU if static"),
    "midStaticMemoryReservedPercent": _percent(0, "mid's share of memory if static"),
    "batchCPUThresholdPercent": _percent(None, "maximum share of CPU for batch", above=True),
    "batchMemoryThresholdPercent": _percent(None, "maximum share of memory for batch", above=True),
    "extensions": Field(
        None,
        lambda value: value is None or isinstance(value, Mapping),
        "an object",
        "for other controllers",
        {"type": "object"},
    ),
    "safetyMarginMode": _one_of("reserve", tuple(MarginMode), "the margin is subtracted, or only caps"),
    "midReclaimRatioPercent": _percent(100, "share of prod's requests that mid may reclaim from"),
    "coldStartHoldsRequest": _flag(True, "hold the whole request of a pod without a warm prediction"),
    "degradeFromSeconds": _seconds(180, "age of usage at which the offer begins to shrink"),
    "riseWindows": _count(2, _MOST_WINDOWS, "windows that a rise must last"),
    "bindSettleSeconds": _seconds(120, "in which a newly bound pod claims its request"),
    "predictionMaxAgeSeconds": _count(900, _YEAR_SECONDS, "maximum age of a prediction"),
    "reservedCPUMilli": _limited(
        0, 0, _MOST_AMOUNT, "reserved on every node beside its own reservation", " of milli-cores"
    ),
    "reservedMemoryBytes": _limited(0, 0, _MOST_AMOUNT, "the same for memory", " of bytes"),
}
DEFAULTS: Spec = {name: field.default for name, field in FIELDS.items() if field.default is not None}
SELECTION = ("nodePool", "nodeSelector", "precedence")
"""Other fields of a document's spec: the nodes it applies to."""
WITHOUT_EFFECT = frozenset(
    {
        *("metricAggregateDurationSeconds", "metricReportIntervalSeconds", "metricAggregatePolicy"),
        *("metricMemoryCollectPolicy", "extensions"),
    }
)
"""Fields of the field that are stored and validated, and that no formula here uses."""


MOST_UNKNOWN = 10
"""Unknown fields that are named; finding what each resembles takes long."""


def field_problems(spec: Spec) -> list[InvalidInput]:
    """Returns the problems of a spec's fields, each checked alone. Each names its field, the value and what is
    allowed.
    """
    unknown = [_unknown(name) for name in islice((name for name in spec if name not in FIELDS), MOST_UNKNOWN)]
    return unknown + [
        InvalidInput(f"{name}: {shown(spec[name])} is not allowed; {field.allowed}", field=name)
        for name, field in FIELDS.items()
        if name in spec and not field.takes(spec[name])
    ]


def problems_of(spec: Spec, base: Spec = MappingProxyType({})) -> list[InvalidInput]:
    """Returns all problems of a spec, whole or partial, on the `base` below it.

    If a spec only lowers the age at which nothing is offered, `strategy_of` keeps the age at which decay begins below
    it.
    """
    if problems := field_problems(spec):
        return problems
    first, last = spec.get("degradeFromSeconds", 0), 60 * {**DEFAULTS, **base, **spec}["degradeTimeMinutes"]
    if first < last:
        return []
    advice = f"it must be below degradeTimeMinutes ({last:.10g} s): lower it or raise degradeTimeMinutes"
    return [InvalidInput(f"degradeFromSeconds: {first} is not allowed; {advice}", field="degradeFromSeconds")]


def _unknown(name: str) -> InvalidInput:
    """Names the closest field, if one is close: there are too many to list."""
    near = closest(name, (*FIELDS, *SELECTION))
    hint = f"; did you mean {near}?" if near else ""
    return InvalidInput(f"{name}: there is no such field{hint}", field=name)


def strategy_of(spec: Spec, base: Spec = MappingProxyType({})) -> Strategy:
    """Builds the strategy of a merged spec, with `base` and then defaults for missing fields.

    `base` is not validated and may contain fractions of a minute or second. Raises InvalidInput with the first problem.
    """
    for problem in problems_of(spec, base):
        raise problem
    whole = {**DEFAULTS, **base, **spec}
    last = 60.0 * whole["degradeTimeMinutes"]
    first = float(whole["degradeFromSeconds"])
    return Strategy(
        enabled=whole["enable"],
        cpu_reclaim_threshold_percent=whole["cpuReclaimThresholdPercent"],
        memory_reclaim_threshold_percent=whole["memoryReclaimThresholdPercent"],
        reserved=Resources(whole["reservedCPUMilli"], whole["reservedMemoryBytes"]),
        cold_start_holds_request=whole["coldStartHoldsRequest"],
        diff_threshold=float(whole["resourceDiffThreshold"]),
        rise_windows=whole["riseWindows"],
        decay_from_seconds=first if first < last else last / 2,
        decay_to_seconds=last,
        prediction_max_age_seconds=float(whole["predictionMaxAgeSeconds"]),
        cpu_policy=CountingPolicy(whole["cpuCalculatePolicy"]),
        memory_policy=CountingPolicy(whole["memoryCalculatePolicy"]),
        margin_mode=MarginMode(whole["safetyMarginMode"]),
        batch_cpu_threshold_percent=whole.get("batchCPUThresholdPercent"),
        batch_memory_threshold_percent=whole.get("batchMemoryThresholdPercent"),
        mid_mode=MidMode(whole["midReclaimMode"]),
        mid_reclaim_ratio_percent=whole["midReclaimRatioPercent"],
        mid_cpu_threshold_percent=whole["midCPUThresholdPercent"],
        mid_memory_threshold_percent=whole["midMemoryThresholdPercent"],
        mid_unallocated_percent=whole["midUnallocatedPercent"],
        mid_static_cpu_reserved_percent=whole["midStaticCPUReservedPercent"],
        mid_static_memory_reserved_percent=whole["midStaticMemoryReservedPercent"],
        update_time_threshold_seconds=float(whole["updateTimeThresholdSeconds"]),
        bind_settle_seconds=float(whole["bindSettleSeconds"]),
    )
