"""Makes `usage.reported` of a closed window: numbered without gaps, with the count of dropped reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from slackwater.agent.domain.limits import NO_LIMITS, Limits, ReadLimits
from slackwater.agent.domain.observation import ObservedWindow, PodWindow
from slackwater.agent.domain.rates import PressureWindow
from slackwater.agent.domain.weights import ProtectingWeights
from slackwater.agent.domain.windows import Summary
from slackwater.events.measures import Distribution, HostAppUsage, PodUsage, Pressure, Usage
from slackwater.events.report_columns import PAGE, PARTS, Trigger
from slackwater.events.usage_reported import UsageReported


@dataclass(slots=True)
class ReportUsage:
    """Counts the reports of one boot epoch."""

    node: str
    boot_epoch: str
    sequence: int = 0

    def report(
        self,
        window: ObservedWindow,
        limits: ReadLimits,
        trigger: Trigger,
        dropped: int,
        memory_limits: Limits = NO_LIMITS,
        cpu_weights: ProtectingWeights | None = None,
        intent_declared_at: datetime | None = None,
    ) -> UsageReported:
        """The next report. Models are built without validation: every value was computed here, once a second."""
        self.sequence += 1
        system = usage(window.system_cpu, window.system_memory)
        known = window.system_cpu.count > 0 and window.system_memory.count > 0
        return UsageReported.model_construct(
            node=self.node,
            boot_epoch=self.boot_epoch,
            sequence=self.sequence,
            sampled_at=window.sampled_at,
            window_seconds=round(window.seconds, 3),
            trigger=trigger,
            dropped_reports=dropped,
            node_usage=usage(window.node_cpu, window.node_memory),
            system_usage=system if known else None,
            node_pressure=pressure(window.node_pressure),
            prod_pressure=pressure(window.prod_pressure),
            pods=tuple(pod_usage(pod, limits, memory_limits) for pod in window.pods if pod.pod.uid in limits.known),
            disks=window.disks,
            links=window.links,
            prod_refault_bytes_per_second=window.prod_refaults,
            node_free_bytes=window.node_free_bytes,
            cpu_weights=cpu_weights,
            intent_declared_at=intent_declared_at,
            failed_pods=window.failed_pods,
            host_apps=tuple(HostAppUsage(app.name, app.tier, usage(app.cpu, app.memory)) for app in window.host_apps),
        )


def usage(cpu: Summary, memory: Summary) -> Usage:
    return Usage(cpu_milli=distribution(cpu), memory_bytes=distribution(memory))


def distribution(summary: Summary) -> Distribution:
    return Distribution(
        avg=summary.avg,
        p50=summary.p50,
        p90=summary.p90,
        p95=summary.p95,
        p99=summary.p99,
        max=summary.max,
        last=summary.last,
        count=summary.count,
    )


def pressure(window: PressureWindow) -> Pressure:
    """The pressure with the digits that travel in columns."""
    return Pressure(
        cpu_some_last=_travelling(window.cpu.last),
        cpu_some_avg=_travelling(window.cpu.average),
        cpu_some_max=_travelling(window.cpu.highest),
        memory_some_avg=_travelling(window.memory.average),
        io_some_avg=_travelling(window.io.average),
    )


def _travelling(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio * PARTS) / PARTS


def in_pages(memory: Summary) -> Summary:
    """Memory whose average is in whole pages, as its samples are: it travels in pages then."""
    if memory.p50 % PAGE or memory.last % PAGE:
        return memory
    return replace(memory, avg=round(memory.avg / PAGE) * PAGE)


def pod_usage(window: PodWindow, limits: ReadLimits, memory_limits: Limits = NO_LIMITS) -> PodUsage:
    now, original = limits.known[window.pod.uid]
    high = memory_limits.get(window.pod.uid)
    return PodUsage(
        pod=window.pod,
        usage=usage(window.cpu, in_pages(window.memory)),
        pressure=pressure(window.pressure),
        cpu_limit_milli=now,
        original_cpu_limit_milli=original,
        throttled_ratio=_travelling(window.throttled_ratio),
        memory_high_bytes=None if high is None else high[0],
        original_memory_high_bytes=None if high is None else high[1],
        reclaimable_bytes=None if high is None else window.cache_bytes,
        unread=limits.unread.get(window.pod.uid),
    )
