"""One sample: read the machine, fold it into the window, converge, and report when a report is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from slackwater.agent.domain import waterlines
from slackwater.agent.domain.observation import Instant, Observation, ObservedWindow
from slackwater.agent.ports import Driver, Observed
from slackwater.agent.usecases.converge import ConvergeToIntents
from slackwater.agent.usecases.report import ReportUsage
from slackwater.events.report_columns import Trigger
from slackwater.events.usage_reported import UsageReported
from slackwater.intents.controls import ENSURANCE
from slackwater.model.pods import Pod
from slackwater.model.time import Clock


@dataclass(frozen=True, slots=True)
class Tick:
    """What one sample led to: a report if one is due, answers to publish, and what was read."""

    report: UsageReported | None
    observed: tuple[Observed, ...]
    instant: Instant
    pods: Sequence[Pod]
    crossed: frozenset[waterlines.Waterline] = frozenset()
    """The local waterlines that are exceeded."""
    host_apps: frozenset[str] = frozenset()
    """Names of the host applications that were there."""


@dataclass(slots=True)
class SampleMachine:
    """`dropped` returns how many reports were lost so far, `behind` whether older ones still wait for the bus."""

    driver: Driver
    clock: Clock
    observation: Observation
    converge: ConvergeToIntents
    reporter: ReportUsage
    report_seconds: float
    dropped: Callable[[], int]
    behind: Callable[[], bool]
    last_sample: float | None = None
    _last_report: float | None = None
    _last_window: ObservedWindow | None = None
    _crossed: frozenset[waterlines.Waterline] = frozenset()
    """The waterlines that were exceeded at the last sample."""

    def tick(self) -> Tick:
        """Never waits and never needs the bus."""
        sample = self.driver.sample()
        pods = self.driver.pods()
        instant = self.observation.add(sample, pods)
        self.last_sample = sample.monotonic
        observed = tuple(self.converge.tick(pods))
        if self._last_report is None:
            self._last_report = sample.monotonic
        self._crossed = self._above(self.converge.held.waterlines(), instant)
        hurry = not self.behind()  # while the bus is away, early reports would only push older ones out of the buffer
        trigger = waterlines.due(
            is_above=bool(self._crossed) and hurry,
            throttled=self.converge.throttling() and hurry,
            since_last_seconds=sample.monotonic - self._last_report,
            interval_seconds=self.report_seconds,
        )
        report = self.report(trigger) if trigger is not None else None
        if report is not None:
            self._last_report = sample.monotonic
        return Tick(report, observed, instant, pods, self._crossed, frozenset([app.name for app in sample.host_apps]))

    def is_due_early(self) -> bool:
        """Whether the machine has crossed a waterline since the last sample, so that a sample now reports it sooner. An
        agent that is above a waterline or holds limits waits for whole samples of CPU, which vary less. Memory does not
        wait."""
        lines = [line for line in self.converge.held.waterlines() if line not in self._crossed]
        if self._crossed or self.converge.throttling():
            lines = [line for line in lines if line.metric in waterlines.MEMORY]
        glance = self.driver.glance() if lines else None
        return glance is not None and bool(self._above(lines, self.observation.since(glance)))

    def _above(self, lines: Sequence[waterlines.Waterline], instant: Instant) -> frozenset[waterlines.Waterline]:
        return waterlines.above(lines, instant, self.converge.capacity_milli, self.converge.capacity_bytes)

    def report(self, trigger: Trigger) -> UsageReported | None:
        """Close the window now; None when it holds no interval yet."""
        pods = self.driver.pods()
        window = self.observation.close(pods)
        return None if window is None else self._report_of(window, trigger, pods)

    def leave(self) -> UsageReported | None:
        """Returns the report that the node leaves; None if it has never reported. Where the window holds no interval
        yet, the last one stands for the time since then."""
        report = self.report("leave")
        now, last = self.clock.now(), self._last_window
        if report is not None or last is None or now <= last.sampled_at:
            return report
        since = replace(last, sampled_at=now, seconds=(now - last.sampled_at).total_seconds())
        return self._report_of(since, "leave", self.driver.pods())

    def _report_of(self, window: ObservedWindow, trigger: Trigger, pods: Sequence[Pod]) -> UsageReported:
        self._last_window = window
        limits, memory_limits = self.converge.limits(pods), self.converge.memory_limits(pods)
        weights = self.converge.weights_in_force()
        declared_at = self.converge.held.declared_at(ENSURANCE.name)
        return self.reporter.report(window, limits, trigger, self.dropped(), memory_limits, weights, declared_at)
