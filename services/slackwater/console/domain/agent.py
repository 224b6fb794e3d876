"""The known state of a node's agent, line by line; an unknown value is shown as unknown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from slackwater.charts.units import seconds
from slackwater.console.domain.views import IntentView, NodeView, ObservationView
from slackwater.model.plurals import counted


@dataclass(frozen=True, slots=True)
class AgentLine:
    """A line of text. `tone` is empty, good, bad or unknown; `at` is shown as a time after the text."""

    title: str
    text: str
    tone: str = ""
    at: datetime | None = None


def agent_lines(
    node: NodeView, intent: IntentView | None, observed: ObservationView | None, *, broker: bool = True
) -> tuple[AgentLine, ...]:
    """The lines of a node's agent. `broker` is False when the last intent could not be read: it is then unknown, not
    absent.
    """
    return (
        _driver(node),
        _report(node),
        *_intent(intent, observed, broker),
        _journal(node),
        _foreign(observed),
    )


def _driver(node: NodeView) -> AgentLine:
    facts = node.facts
    if facts is None:
        return AgentLine("Driver", "unknown: the agent has not described the node yet", "unknown")
    text = f"{facts.driver}, agent {facts.agent_version}, cgroup {facts.cgroup_version}, kernel {facts.kernel}"
    return AgentLine("Driver", text, at=node.described_at)


def _report(node: NodeView) -> AgentLine:
    usage = node.usage
    if usage is None:
        return AgentLine("Last report", "never", "unknown")
    word = {
        "interval": "on time",
        "waterline": "at once, over a waterline",
        "pods": "at once, other pods run",
        "shutdown": "its last, at shutdown",
        "leave": "its last, the node left",
    }
    said = word.get(usage.trigger, usage.trigger)
    return AgentLine(
        "Last report",
        f"{said}, {seconds(usage.window_seconds)} window, {counted(usage.pods, 'pod')}",
        at=usage.sampled_at,
    )


def _intent(intent: IntentView | None, observed: ObservationView | None, broker: bool) -> tuple[AgentLine, ...]:
    if not broker:
        return (AgentLine("Desired", "unknown: the broker does not answer", "unknown"),)
    if intent is None:
        return (AgentLine("Desired", "nothing: no service has declared an intent for this node", "unknown"),)
    limits = f"{len(intent.limits)} limit{'s' if len(intent.limits) != 1 else ''}" if intent.limits else "no limits"
    evictions = f", {intent.evictions} to evict" if intent.evictions else ""
    wanted = f"generation {intent.generation} of {intent.writer}: {limits}{evictions}"
    return AgentLine("Desired", wanted, at=intent.declared_at), _converged(intent, observed), _lease(intent)


def _converged(intent: IntentView, observed: ObservationView | None) -> AgentLine:
    if observed is None:
        return AgentLine("Observed", "the agent has not answered any generation yet", "unknown")
    if observed.generation >= intent.generation:
        return AgentLine("Observed", f"generation {observed.generation} is in force", "good", observed.observed_at)
    behind = f"generation {observed.generation} is in force, {intent.generation} is desired"
    return AgentLine("Observed", behind, "bad", observed.observed_at)


def _lease(intent: IntentView) -> AgentLine:
    """The lease of the intent. Only agents receive renewals; a writer that no longer receives a node's reports says so
    in its intent.
    """
    if intent.lease_seconds <= 0:
        said = f"none: {intent.writer} receives no reports of the node: its agent restores limits and acts alone"
        return AgentLine("Lease", said, "bad", intent.declared_at)
    return AgentLine(
        "Lease", f"{seconds(intent.lease_seconds)}, renewed while {intent.writer} reads the node's reports"
    )


def _journal(node: NodeView) -> AgentLine:
    held = node.usage.throttled_pods if node.usage else 0
    if held:
        text = f"kept on the node, with the values before {held} throttle{'s' if held != 1 else ''}"
    else:
        text = "kept on the node; the last report shows nothing to restore"
    return AgentLine("Journal", text + " (its entries are not reported)", "unknown")


def _foreign(observed: ObservationView | None) -> AgentLine:
    if observed is None:
        return AgentLine("Foreign writers", "unknown: nothing was written here yet", "unknown")
    if observed.foreign_writers:
        return AgentLine("Foreign writers", ", ".join(observed.foreign_writers), "bad", observed.observed_at)
    return AgentLine("Foreign writers", "none seen at the last write", "", observed.observed_at)
