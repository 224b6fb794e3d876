"""Histories that once violated an invariant: one line each, performed by `--regressions` and by the tests.

A seed draws another plan when tests.world.swarm changes; a plan file beside this module (`--shrink` writes one) stays
as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.world.campaign import prepare, show
from tests.world.plan import Plan
from tests.world.run import Child, described, perform
from tests.world.swarm import draw


@dataclass(frozen=True, slots=True)
class Regression:
    """`source` is a seed or the name of a plan file, `mended` the commit that mended the defect."""

    source: int | str
    invariant: str
    what: str
    mended: str
    nodes: int = 10
    seconds: float = 600.0

    def plan(self) -> Plan:
        if isinstance(self.source, int):
            return draw(self.source, nodes=self.nodes, seconds=self.seconds)
        return Plan.from_json((Path(__file__).parent / self.source).read_text())


LOST_ANSWER = "an event that waited in the outbox was committed again after the answer of its commit was lost"
BUSY_RELAY = "a relay asked PostgreSQL without a pause for a subject that another replica had sent"
OLD_AGENT = "a report of an agent that two restarts had replaced was taken again, as that of a new agent"
TAKEN_OVER = "a process that took over in an outage counted the deliveries before it as crashes"
TWO_EVICTIONS = "a cycle that set a limit and evicted declared the eviction under both of its decisions"
UNREAD = "a pod whose limit could not be read was taken for gone, and its limit went without a record"
LOST = "a document that the broker lost before its agent received it was not declared again"
CONTRADICTED = "limits that helped one rule were undone for another that they did not help, and set again, without end"
FORWARD = "a report that its agent's clock, set forward, put into a later window counted as missing in both"
AHEAD = "a request for leave by a replica whose clock was ahead held all later ones of its tree back"
UNREAD_POOLS = "reports were compared, and the tree decided about, before the replica had read what the pools have"
BACK = "reports that their agent's clock, set back, put into a former window counted as missing in the next"
LATER_EFFECTS = "effects in the report of a step back were counted in its record, but not in its sentence"
OVERTAKEN = "an event that an older relay had refused was published after a later one of its subject"
OFFER_AHEAD = "an offer of a service whose clock was ahead hid the later ones until time had passed it"
EARLIER_BOOT = "the journal of an earlier boot put a text from before it into a file made anew"
REFUSED = "a replica that listed the queue with a claim which its owner was about to refuse ended"
STALE = "a replica that took over with documents of before made a job of a deleted one once more"
START_LOST = "the answer that a start had failed was lost with the broker, and its job waited without end"
READ_AGAIN = "a document that an agent read again looked newer than the last, because its owner's clock was set back"
NO_ROSTER = "a report that met an outage was used up before it had waited for its roster"
REGRESSIONS = (
    Regression("seed-3.json", "no defect is logged", LOST_ANSWER, "48fb3d79"),
    Regression("seed-1015.json", "no busy loop", BUSY_RELAY, "a1811ab0"),
    Regression("seed-123.json", "no defect is logged", OLD_AGENT, "499966ae"),
    Regression("processes-change-in-an-outage.json", "no valid message is a dead letter", TAKEN_OVER, "4d28ae1b"),
    Regression("seed-45.json", "changes are recorded", TWO_EVICTIONS, "989662c9"),
    Regression("pods-that-cannot-be-read.json", "changes are recorded", UNREAD, "d522e82f"),
    Regression("document-lost-with-the-broker.json", "agents follow the newest document", LOST, "dea2a366"),
    Regression("contradicting-rules.json", "nothing changes at rest", CONTRADICTED, "863f7916"),
    Regression("report-of-a-clock-set-forward.json", "windows count once", FORWARD, "6ffaa07d"),
    Regression("leave-asked-by-a-clock-ahead.json", "quotas are settled at rest", AHEAD, "285464b0"),
    Regression("reports-compared-before-pools-are-read.json", "plans know the pools", UNREAD_POOLS, "285464b0"),
    Regression("report-of-a-clock-set-back.json", "windows count once", BACK, "c5a5bd6f"),
    Regression("effects-in-the-report-of-a-step-back.json", "records can be repeated", LATER_EFFECTS, "9c8867cd"),
    Regression("refused-row-is-overtaken.json", "committed events are published once", OVERTAKEN, "820f91e7"),
    Regression("offers-after-a-clock-set-back.json", "the console shows the true state", OFFER_AHEAD, "282078db"),
    Regression("foreign-value-of-an-earlier-boot.json", "every file reads as before", EARLIER_BOOT, "ab9dd71f"),
    Regression("claim-about-to-be-refused.json", "processes end as declared", REFUSED, "1ee76bfb"),
    Regression("documents-read-before-a-handover.json", "jobs follow their life", STALE, "36135c87"),
    Regression("end-of-a-start-lost-with-the-broker.json", "moved pods run once", START_LOST, "36135c87"),
    Regression(
        "document-read-again-after-a-clock-set-back.json",
        "agents follow the newest document",
        READ_AGAIN,
        "124fb8a9",
    ),
    Regression(
        "report-without-roster-after-an-outage.json", "no valid message is a dead letter", NO_ROSTER, "595266d6"
    ),
)


def perform_all() -> int:
    """Perform all of them and print a line for each. Returns 1 if one violates an invariant."""
    prepare()
    outcomes = []
    for regression in REGRESSIONS:
        outcome = Child(partial(perform, regression.plan())).result()
        outcomes.append(outcome)
        show(f"{regression.source}: {described(outcome)}")
    return int(any(outcome.failure for outcome in outcomes))
