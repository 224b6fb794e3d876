"""Validates reports. Every refusal has one reason of a closed set; no function here raises.

A report of a node that was never described is accepted: its usage is real and only its capacity is unknown, so absolute
bounds replace those relative to capacity.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from enum import StrEnum

from slackwater.ingestion.domain.reports import Arrival, KnownNode, Report, SequenceTrack, UsageSeries
from slackwater.ingestion.domain.sequences import BootOrder, Repeated, observe, order_of
from slackwater.model.bounds import (
    MOST_COUNT,
    MOST_CPU_MILLI,
    MOST_MEMORY_BYTES,
    MOST_NAME,
    MOST_PRIORITY,
    MOST_RATIO,
    MOST_SAMPLES,
    is_line,
)
from slackwater.model.nodes import Liveness
from slackwater.model.placement_rules import AntiAffinityRule, LabelRequirement, SpreadRule
from slackwater.model.plausibility import CAPACITY_FACTOR, plausible_usage
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.records import record

ABSURD_WINDOW_SECONDS = 3600.0


class Refusal(StrEnum):
    """Reason of a refusal: the reason of the dead letter and the label of the counter."""

    MALFORMED = "malformed"
    NOT_FINITE = "not_finite"
    NEGATIVE = "negative"
    ABSURD = "absurd"
    CLOCK_SKEW = "clock_skew"
    WRONG_NODE = "wrong_node"
    REPLAYED_SEQUENCE = "replayed_sequence"
    DUPLICATE_AGENT = "duplicate_agent"
    UNSTORABLE = "unstorable"


@record(frozen=True, slots=True)
class ReportLimits:
    """How far the agent's clock may be ahead of or behind the server's, and by what factor usage may exceed capacity.

    `behind_seconds` is large because a report may wait in the agent or in the stream while ingestion is unavailable.
    """

    ahead_seconds: float
    behind_seconds: float
    capacity_factor: float = CAPACITY_FACTOR


@record(frozen=True, slots=True)
class Accepted:
    """The track after the report, and the change of the missing count."""

    track: SequenceTrack
    gap_delta: int


@record(frozen=True, slots=True)
class RefusedReport:
    """`detail` names the field and the value for the dead letter."""

    reason: Refusal
    detail: str


def bounds_of(capacity: Resources | None, limits: ReportLimits) -> Resources:
    """Returns the upper bounds of plausible usage for a capacity, which is None while unknown."""
    return plausible_usage(capacity, limits.capacity_factor)


def judge(arrival: Arrival, known: KnownNode, limits: ReportLimits, *, sound: bool = False) -> Accepted | RefusedReport:
    """Returns the verdict on a report. Checks identity, form, numbers, time and sequence, in this order.

    `sound` states that form and numbers were already checked (see `fast_validation`).
    """
    report = arrival.report
    if report.node != arrival.subject_key:
        return RefusedReport(
            Refusal.WRONG_NODE,
            f"node: {report.node!r} on the subject of {arrival.subject_key!r}; both must name the same node",
        )
    refused = None if sound else _content(report, bounds_of(known.capacity, limits))
    refused = refused or _time(report, arrival.received_at, limits)
    if refused is not None:
        return refused
    order = BootOrder.LATER
    if report.boot_epoch != known.track.boot_epoch:
        order = order_of(report.midpoint_at, known.newest_at, is_fresh=known.liveness is Liveness.FRESH)
    seen = observe(known.track, report.boot_epoch, report.sequence, order)
    if isinstance(seen, Repeated):
        detail = f"sequence: {report.sequence} of {report.boot_epoch}; last is {known.track.last}"
        return RefusedReport(Refusal.REPLAYED_SEQUENCE, detail)
    return Accepted(seen.track, seen.gap_delta)


def _content(report: Report, bounds: Resources) -> RefusedReport | None:
    return (
        _form(report)
        or _ratios(report)
        or _amounts(report, bounds)
        or refused_apps(report, bounds)
        or refused_failures(report)
    )


def refused_failures(report: Report) -> RefusedReport | None:
    """Returns what is wrong with the pods that have failed. They are few, so each is checked alone."""
    uids = [pod.uid for pod in report.failed]
    if len(set(uids)) != len(uids) or not all(uids):
        return RefusedReport(Refusal.MALFORMED, "failed_pods: every uid must be unique and not empty")
    for pod in report.failed:
        refused = _unprintable(_texts_of(pod)) or _claims(pod, None)
        if refused is not None:
            return refused
        if pod.started_at.tzinfo is None:
            return RefusedReport(Refusal.MALFORMED, f"started_at of {pod.uid}: it has no time zone")
    return None


def _unprintable(texts: Iterator[tuple[str, str]]) -> RefusedReport | None:
    for name, text in texts:
        if not is_line(text):
            return RefusedReport(
                Refusal.MALFORMED, f"{name}: {text[:40]!r} must be printable and at most {MOST_NAME} characters"
            )
    return None


def refused_apps(report: Report, bounds: Resources) -> RefusedReport | None:
    """Returns what is wrong with the host applications. They are few, so each is checked alone."""
    names = [app.name for app in report.host_apps]
    if len(set(names)) != len(names) or not all(name and is_line(name) for name in names):
        return RefusedReport(Refusal.MALFORMED, "host_apps: every name must be unique, printable and not empty")
    for app in report.host_apps:
        refused = _series(f"cpu_milli of {app.name}", app.cpu, bounds.cpu_milli)
        refused = refused or _series(f"memory_bytes of {app.name}", app.memory, bounds.memory_bytes)
        if refused is not None:
            return refused
    return None


def _form(report: Report) -> RefusedReport | None:
    if (unprintable := _unprintable(_texts(report))) is not None:
        return unprintable
    if not (report.node and report.boot_epoch):
        return RefusedReport(Refusal.MALFORMED, "node, boot_epoch: must not be empty")
    for name, moment in _moments(report):
        if moment.tzinfo is None:
            return RefusedReport(Refusal.MALFORMED, f"{name}: {moment.isoformat()} has no time zone")
    if not 1 <= report.sequence <= MOST_COUNT:
        return RefusedReport(Refusal.MALFORMED, f"sequence: {report.sequence} must count from 1")
    uids = [measured.pod.uid for measured in report.pods]
    if len(set(uids)) != len(uids) or not all(uids):
        return RefusedReport(Refusal.MALFORMED, "pods: every uid must be unique and not empty")
    return None


def _texts(report: Report) -> Iterator[tuple[str, str]]:
    yield "node", report.node
    yield "boot_epoch", report.boot_epoch
    for measured in report.pods:
        yield from _texts_of(measured.pod)


def _texts_of(pod: Pod) -> Iterator[tuple[str, str]]:
    yield from (("uid", pod.uid), ("name", pod.name), ("namespace", pod.namespace), ("workload", pod.workload))
    for label, value in pod.labels.items():
        yield "labels", label
        yield "labels", value
    yield from (("status or rules", text) for text in detail_texts(pod))


def detail_texts(pod: Pod) -> Iterator[str]:
    """Returns the texts of a pod's status and rules."""
    if pod.status is not None:
        yield from (pod.status.phase, pod.status.reason)
    if pod.rules is None:
        return
    yield from (text for pair in pod.rules.node_selector.items() for text in pair)
    yield from pod.rules.unread
    for term in pod.rules.affinity:
        yield from _requirement_texts(term)
    for toleration in pod.rules.tolerations:
        yield from (toleration.key, toleration.value or "", toleration.effect)
    yield from (text for port in pod.rules.host_ports for text in (port.protocol, port.ip))
    yield from pod.rules.resources
    rules: tuple[SpreadRule | AntiAffinityRule, ...] = (*pod.rules.spread, *pod.rules.anti_affinity)
    for rule in rules:
        yield from _rule_texts(rule)


def _rule_texts(rule: SpreadRule | AntiAffinityRule) -> Iterator[str]:
    yield rule.topology_key
    yield from rule.namespaces if isinstance(rule, AntiAffinityRule) else ()
    yield from (text for pair in rule.labels.items() for text in pair)
    yield from _requirement_texts(rule.expressions)


def _requirement_texts(term: Iterable[LabelRequirement]) -> Iterator[str]:
    for requirement in term:
        yield requirement.key
        yield from requirement.values


def _moments(report: Report) -> Iterator[tuple[str, datetime]]:
    yield "sampled_at", report.sampled_at
    for measured in report.pods:
        yield f"started_at of {measured.pod.uid}", measured.pod.started_at


def _ratios(report: Report) -> RefusedReport | None:
    if not math.isfinite(report.window_seconds):
        return RefusedReport(Refusal.NOT_FINITE, f"window_seconds: {report.window_seconds}")
    if report.window_seconds <= 0:
        return RefusedReport(Refusal.NEGATIVE, f"window_seconds: {report.window_seconds} must be above zero")
    if report.window_seconds > ABSURD_WINDOW_SECONDS:
        return RefusedReport(
            Refusal.ABSURD, f"window_seconds: {report.window_seconds} is above {ABSURD_WINDOW_SECONDS}"
        )
    for name, value in _shares(report):
        if value is None:
            continue
        if not math.isfinite(value):
            return RefusedReport(Refusal.NOT_FINITE, f"{name}: {value}")
        if value < 0:
            return RefusedReport(Refusal.NEGATIVE, f"{name}: {value}")
        if value > MOST_RATIO:
            return RefusedReport(Refusal.ABSURD, f"{name}: {value} is a share of time")
    return None


def _shares(report: Report) -> Iterator[tuple[str, float | None]]:
    yield from report.pressures._asdict().items()
    for measured in report.pods:
        yield f"throttled_ratio of {measured.pod.uid}", measured.throttled_ratio
        yield f"cpu_pressure of {measured.pod.uid}", measured.cpu_pressure


def _amounts(report: Report, bounds: Resources) -> RefusedReport | None:
    for name, series in _cpu_series(report):
        if refused := _series(name, series, bounds.cpu_milli):
            return refused
    for name, series in _memory_series(report):
        if refused := _series(name, series, bounds.memory_bytes):
            return refused
    for measured in report.pods:
        if refused := _claims(measured.pod, measured.cpu_limit_milli):
            return refused
    return None


def _cpu_series(report: Report) -> Iterator[tuple[str, UsageSeries]]:
    yield "node cpu_milli", report.cpu
    if report.system_cpu is not None:
        yield "system cpu_milli", report.system_cpu
    for measured in report.pods:
        yield f"cpu_milli of {measured.pod.uid}", measured.cpu


def _memory_series(report: Report) -> Iterator[tuple[str, UsageSeries]]:
    yield "node memory_bytes", report.memory
    if report.system_memory is not None:
        yield "system memory_bytes", report.system_memory
    for measured in report.pods:
        yield f"memory_bytes of {measured.pod.uid}", measured.memory


def _series(name: str, series: UsageSeries, bound: int) -> RefusedReport | None:
    lowest, highest = min(series), max(series[:-1])
    if lowest < 0:
        return RefusedReport(Refusal.NEGATIVE, f"{name}: {lowest}")
    if highest > bound:
        return RefusedReport(Refusal.ABSURD, f"{name}: {highest} is above {bound}")
    if series.samples > MOST_SAMPLES:
        return RefusedReport(Refusal.ABSURD, f"{name}: {series.samples} samples")
    ordered = series.p50 <= series.p90 <= series.p95 <= series.p99 <= series.max
    if series.samples and not (ordered and series.avg <= series.max and series.last <= series.max):
        return RefusedReport(Refusal.MALFORMED, f"{name}: percentiles {series} do not rise")
    return None


def _claims(pod: Pod, cpu_limit_milli: int | None) -> RefusedReport | None:
    request, limit = pod.request, cpu_limit_milli or 0
    restarts = 0 if pod.status is None else pod.status.restarts
    if min(request.cpu_milli, request.memory_bytes, limit, restarts) < 0:
        return RefusedReport(Refusal.NEGATIVE, f"request, limit or restarts of {pod.uid}: {request}, {limit}")
    if max(request.cpu_milli, limit) > MOST_CPU_MILLI or request.memory_bytes > MOST_MEMORY_BYTES:
        return RefusedReport(Refusal.ABSURD, f"request or limit of {pod.uid}: {request}, {limit}")
    if abs(pod.priority) > MOST_PRIORITY or restarts > MOST_COUNT:
        return RefusedReport(Refusal.ABSURD, f"priority or restarts of {pod.uid}: {pod.priority}, {restarts}")
    return None


def _time(report: Report, received_at: datetime, limits: ReportLimits) -> RefusedReport | None:
    ahead = report.sampled_at - received_at
    if ahead > timedelta(seconds=limits.ahead_seconds) or -ahead > timedelta(seconds=limits.behind_seconds):
        return RefusedReport(
            Refusal.CLOCK_SKEW,
            f"sampled_at: {report.sampled_at.isoformat()} received at {received_at.isoformat()};"
            f" it may be {limits.ahead_seconds:g} s ahead or {limits.behind_seconds:g} s behind; check the clock",
        )
    return None
