"""The filter forms of the pages, as queries of the read model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from slackwater.console.domain.views import DecisionFilter
from slackwater.console.edge.parameters import decode_cursor, open_span
from slackwater.console.usecases.pictures import WITHOUT_PREDICTIONS
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.model.errors import InvalidInput

ANY = "any"
NAMES = ("node", "pool", "pod", "spared", "kind", "done", "reason", "since", "until", "steps", "episode")
EACH_STEP = "each"
DONE = {"": None, "carried-out": True, "only-told": False}


@dataclass(frozen=True, slots=True)
class FilterForm:
    """A form as submitted (shown again unchanged), and where its page begins."""

    node: str = ""
    pool: str = ""
    pod: str = ""
    spared: str = ""
    kind: str = ""
    done: str = ""
    reason: str = ""
    since: str = ""
    until: str = ""
    steps: str = ""
    episode: str = ""
    cursor: str = ""

    @property
    def each_step(self) -> bool:
        """Whether every decision has a row, instead of every episode."""
        return self.steps == EACH_STEP

    @property
    def given(self) -> Mapping[str, str]:
        """The filters that have a value."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name)}

    def question(self, now: datetime) -> DecisionFilter:
        """The query. Raises InvalidInput that names the field."""
        since, until = open_span(self.since.strip(), self.until.strip(), now)
        return DecisionFilter(
            node=self.node.strip() or None,
            pool=self.pool.strip() or None,
            pod=self.pod.strip() or None,
            spared=bool(self.spared),
            carried_out=_done(self.done),
            kinds=_kinds(self.kind),
            reason=_reason(self.reason),
            episode=self.episode.strip() or None,
            since=since,
            until=until,
            before=decode_cursor(self.cursor) if self.cursor else None,
        )


def _kinds(word: str) -> tuple[DecisionKind, ...] | None:
    """The kinds to list. Without a choice predictions are left out, because every window of every node makes one."""
    if word == ANY:
        return None
    if not word:
        return WITHOUT_PREDICTIONS
    if word not in set(DecisionKind):
        raise InvalidInput(f"kind: {word!r} is not a kind; allowed: {', '.join(DecisionKind)}", field="kind")
    return (DecisionKind(word),)


def _done(word: str) -> bool | None:
    if word not in DONE:
        raise InvalidInput(f"done: {word!r} is not allowed; allowed: {', '.join(filter(None, DONE))}", field="done")
    return DONE[word]


def _reason(word: str) -> Reason | None:
    if word and word not in set(Reason):
        raise InvalidInput(f"reason: {word!r} is not a reason; allowed: {', '.join(Reason)}", field="reason")
    return Reason(word) if word else None
