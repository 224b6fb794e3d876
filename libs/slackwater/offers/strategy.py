"""The strategy of a node in the formulas' types. The document is in `document`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields
from enum import StrEnum
from typing import Any

from slackwater.model.quantities import Resources
from slackwater.model.records import record


class CountingPolicy(StrEnum):
    """The basis on which pods of high tiers are counted for the batch offer."""

    USAGE = "usage"
    REQUEST = "request"
    MAX_USAGE_REQUEST = "maxUsageRequest"


class MarginMode(StrEnum):
    """The safety margin is either subtracted, or only caps the offer."""

    RESERVE = "reserve"
    CAP = "cap"


class MidMode(StrEnum):
    """Whether anything is offered to mid, and from what: prod's reclaimable part, or a fixed share of the node."""

    OFF = "off"
    DYNAMIC = "dynamic"
    STATIC = "static"


@record(frozen=True, slots=True)
class Strategy:
    """Percentages are those of the field. `reserved` is held back in addition to the node's own reservation.

    A difference counts beyond `diff_threshold` (ratio of the published value); a rise must last `rise_windows`; a
    smaller difference is published once it is `update_time_threshold_seconds` old. The offer decays from full to
    nothing while its usage ages from `decay_from_seconds` to `decay_to_seconds`; a prediction older than
    `prediction_max_age_seconds` is ignored. A pod that was bound and not yet measured claims a growing part of its
    request over `bind_settle_seconds`. `batch_*_threshold_percent` None: no cap.
    """

    cpu_reclaim_threshold_percent: int = 60
    memory_reclaim_threshold_percent: int = 65
    reserved: Resources = field(default_factory=Resources)
    cold_start_holds_request: bool = True
    diff_threshold: float = 0.1
    rise_windows: int = 2
    decay_from_seconds: float = 180.0
    decay_to_seconds: float = 900.0
    prediction_max_age_seconds: float = 900.0
    enabled: bool = True
    cpu_policy: CountingPolicy = CountingPolicy.USAGE
    memory_policy: CountingPolicy = CountingPolicy.USAGE
    margin_mode: MarginMode = MarginMode.RESERVE
    batch_cpu_threshold_percent: int | None = None
    batch_memory_threshold_percent: int | None = None
    mid_mode: MidMode = MidMode.OFF
    mid_reclaim_ratio_percent: int = 100
    mid_cpu_threshold_percent: int = 100
    mid_memory_threshold_percent: int = 100
    mid_unallocated_percent: int = 0
    mid_static_cpu_reserved_percent: int = 0
    mid_static_memory_reserved_percent: int = 0
    update_time_threshold_seconds: float = 300.0
    bind_settle_seconds: float = 120.0

    def policy(self, resource: str) -> CountingPolicy:
        return self.cpu_policy if resource == "cpu" else self.memory_policy

    def reclaim_threshold(self, resource: str) -> int:
        return self.cpu_reclaim_threshold_percent if resource == "cpu" else self.memory_reclaim_threshold_percent

    def batch_threshold(self, resource: str) -> int | None:
        return self.batch_cpu_threshold_percent if resource == "cpu" else self.batch_memory_threshold_percent

    def mid_threshold(self, resource: str) -> int:
        return self.mid_cpu_threshold_percent if resource == "cpu" else self.mid_memory_threshold_percent

    def mid_static(self, resource: str) -> int:
        both = self.mid_static_cpu_reserved_percent, self.mid_static_memory_reserved_percent
        return both[resource != "cpu"]


_NAMES = tuple(column.name for column in fields(Strategy))


def strategy_to_json(strategy: Strategy) -> dict[str, Any]:
    """Returns all fields. Shallow, because `dataclasses.asdict` copies deeply and every record needs this."""
    document = {name: getattr(strategy, name) for name in _NAMES}
    reserved = strategy.reserved
    return {**document, "reserved": {"cpu_milli": reserved.cpu_milli, "memory_bytes": reserved.memory_bytes}}


def strategy_from_json(document: Mapping[str, Any]) -> Strategy:
    """Builds the strategy from `strategy_to_json`'s document; fields missing in an older record have their default."""
    read: dict[str, Any] = {**document, "reserved": Resources(**document["reserved"])}
    enums: dict[str, Callable[[str], StrEnum]] = {
        "cpu_policy": CountingPolicy,
        "memory_policy": CountingPolicy,
        "margin_mode": MarginMode,
        "mid_mode": MidMode,
    }
    return Strategy(**read | {name: of(read[name]) for name, of in enums.items() if name in read})
