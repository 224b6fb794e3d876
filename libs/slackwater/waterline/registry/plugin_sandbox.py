"""Sandboxes metrics of other distributions, so that their errors do not affect other waterlines.

A failed reading is missing, and its error is reported. A gap that cannot be computed is unknown, so
actions for it stay within the limits of unquantified metrics. A pod for which a function fails
releases nothing and is not cut, and a cut is restored by the built-in function where the metric's
own fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from slackwater.waterline.actuation.cpu_quota import QuotaChange, RestoreBounds, ThrottleBounds, restore_cpu
from slackwater.waterline.facts.amounts import Number, exact
from slackwater.waterline.facts.node import MetricSeries, NodeReadings
from slackwater.waterline.facts.pods import PodUse
from slackwater.waterline.ordering.chains import CHAINS, Comparator, ComparatorChain, Key
from slackwater.waterline.registry.metric import (
    Basis,
    Evict,
    Fact,
    Metric,
    MetricFailed,
    Readings,
    Release,
    Restore,
    RuleCheck,
    Throttle,
)

Tell = Callable[[str, str, str], None]
"""Called with (metric, function, exception text)."""


def sandboxed(metric: Metric, tell: Tell = lambda metric, part, why: None) -> Metric:
    """Returns the metric with failures contained. An error that leaves a value unknown is reported
    to `tell`, once per kind; readings and checks report their errors themselves.
    """

    def heard(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        known = set[type[Exception]]()

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except Exception as error:
                if type(error) not in known:
                    known.add(type(error))
                    tell(metric.name, part, f"{type(error).__name__}: {error}")
                raise

        return call

    has_own_way = metric.restore is not None and metric.restore is not restore_cpu
    return replace(
        metric,
        readings=None if metric.readings is None else _readings(metric.name, metric.readings),
        release=_release(heard("release", metric.release)),
        basis=_basis(heard("basis", metric.basis)),
        sort=None if metric.sort is None else _sort(metric.sort),
        throttle=None if metric.throttle is None else _throttle(heard("throttle", metric.throttle)),
        restore=_restore(heard("restore", metric.restore)) if metric.restore and has_own_way else metric.restore,
        evict=None if metric.evict is None else _evict(heard("evict", metric.evict)),
        concerns=_concerns(heard("concerns", metric.concerns)),
        check=_check(metric.check),
        target_of=_target_of(heard("target_of", metric.target_of)),
    )


def _asked(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the function's result; None if it raises."""
    try:
        return function(*arguments)
    except Exception:  # noqa: BLE001 - an external function may raise anything; its value is then unknown
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


def _amount(value: Any) -> Decimal | None:
    """Returns an exact, finite amount; None for anything else."""
    found = exact(value) if _is_number(value) else None
    return found if found is not None and found.is_finite() else None


def _readings(name: str, readings: Readings) -> Readings:
    def read(view: NodeReadings) -> tuple[MetricSeries, ...]:
        try:
            found = tuple(readings(view))
        except Exception as error:
            raise MetricFailed(f"{name} cannot be read: {type(error).__name__}: {error}") from error
        for one in found:
            if not isinstance(one, MetricSeries) or not _is_number(one.value):
                raise MetricFailed(
                    f"{name} cannot be read: its readings gave {one!r}; allowed: a MetricSeries of numbers"
                )
        return found

    return read


def _release(release: Release) -> Release:
    return lambda view, reading, target: _amount(_asked(release, view, reading, target))


def _evict(evict: Evict) -> Evict:
    return lambda pod: _amount(_asked(evict, pod))


def _concerns(concerns: Callable[[PodUse], bool]) -> Callable[[PodUse], bool]:
    return lambda pod: _asked(concerns, pod) is True


def _target_of(target_of: Callable[[Decimal], Decimal]) -> Callable[[Decimal], Decimal]:
    def target(value: Decimal) -> Decimal:
        found = _amount(_asked(target_of, value))
        return value if found is None else found

    return target


def _basis(basis: Basis) -> Basis:
    def found(view: NodeReadings) -> tuple[Fact, ...]:
        facts = _asked(basis, view)
        is_told = isinstance(facts, tuple) and all(isinstance(fact, Fact) for fact in facts)
        return tuple(fact for fact in facts if fact.value is None or _amount(fact.value) is not None) if is_told else ()

    return found


def _check(check: RuleCheck) -> RuleCheck:
    def wrong(value: Decimal, target: Decimal | None) -> str | None:
        try:
            found = check(value, target)
        except Exception as error:  # noqa: BLE001 - reported as the error of the rule
            return f"the metric could not check the rule: {type(error).__name__}: {error}"
        return None if found is None else str(found)

    return wrong


def _throttle(throttle: Throttle) -> Throttle:
    def cut(pod: PodUse, bounds: ThrottleBounds, gap: Decimal | None) -> tuple[QuotaChange, ...]:
        changes = _asked(throttle, pod, bounds, gap)
        if not isinstance(changes, tuple):
            return ()
        is_usable = all(
            isinstance(change, QuotaChange) and _amount(change.amount_milli) is not None for change in changes
        )
        return changes if is_usable else ()

    return cut


def _restore(restore: Restore) -> Restore:
    def give(pod: PodUse, bounds: RestoreBounds, headroom: Decimal | None) -> tuple[QuotaChange, ...]:
        changes = _asked(restore, pod, bounds, headroom)
        if not isinstance(changes, tuple) or not all(_is_raise(change, pod) for change in changes):
            return restore_cpu(pod, bounds, headroom)
        return changes

    return give


def _is_raise(change: object, pod: PodUse) -> bool:
    """Returns whether a change raises a container of this pod, to at most its original quota."""
    if not isinstance(change, QuotaChange) or _amount(change.amount_milli) is None:
        return False
    container = next((container for container in pod.containers if container.name == change.container), None)
    if container is None or change.before_us != container.quota_us or change.before_us is None:
        return False
    if change.uid != pod.uid or change.period_us != container.period_us:
        return False
    before, after, original = change.before_us, change.after_us, container.original_quota_us
    if after is None:
        return original is None
    if not isinstance(after, int) or isinstance(after, bool) or (original is not None and after > original):
        return False
    return before < after and (after == original or after % container.grain_us == 0)


def _sort(chain: ComparatorChain) -> ComparatorChain:
    """Returns the chain; its comparators treat a pod that they fail on as undecided."""
    if chain in CHAINS.values():
        return chain
    return replace(
        chain, comparators=tuple(Comparator(comparator.name, _key(comparator.key)) for comparator in chain.comparators)
    )


def _key(key: Key) -> Key:
    def placed(pod: PodUse) -> Number:
        found = _asked(key, pod)
        return found if _amount(found) is not None else 0

    return placed
