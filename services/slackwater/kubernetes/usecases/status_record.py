"""The decision record of a write to a node's status, with what explains it."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from slackwater.apiserver.resource_names import subject_in
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord, Input, Replay, Term
from slackwater.kubernetes.domain.status_plan import (
    AmountChange,
    LentOffer,
    NodeStatusFacts,
    StatusPatch,
    StatusPolicy,
    foreign_amounts,
)
from slackwater.kubernetes.domain.status_replay import FUNCTION, replay_arguments
from slackwater.model.bounds import EARLIEST

SERVICE: Final = "kubernetes"
SUBJECT: Final = "node-status"
UNIT: Final = "amounts"
UNKNOWN_MANAGER: Final = "an unknown manager"
"""Of what a node was registered with, and of a node whose fields the API server does not track."""
RULE: Final = "server-side-apply"
_IDS: Final = uuid.UUID("0b0e5a6e-5f0b-5c39-8a8e-2f6f1d5d7c52")


def status_record(patch: StatusPatch, facts: NodeStatusFacts, policy: StatusPolicy, now: datetime) -> DecisionRecord:
    """The record of one write: a term per amount that changes, and their number as the result."""
    terms = tuple(_term(change) for change in patch.changes)
    offer = patch.offer
    cause = offer.event if offer is not None else None
    return DecisionRecord(
        id=str(uuid.uuid5(_IDS, f"{patch.node}|{patch.uid}|{cause}|{now.isoformat()}")),
        kind=DecisionKind.STATUS,
        node=patch.node,
        subject=SUBJECT,
        service=SERVICE,
        rule=RULE,
        reason=patch.reason,
        decided_at=now,
        trigger_event_id=cause,
        inputs=(*_inputs(patch, facts), *_left(facts, policy)),
        terms=terms,
        result=len(terms),
        unit=UNIT,
        replay=Replay(function=FUNCTION, arguments=replay_arguments(facts, policy)),
    )


def _term(change: AmountChange) -> Term:
    if change.after is None:
        note = "withdrawn" if change.before is None else f"{change.before} is withdrawn"
    elif change.before == change.after:
        note = f"{change.after} is applied as it is there"
    else:
        note = f"{'nothing' if change.before is None else change.before} becomes {change.after}"
    return Term(name=change.name, value=1, note=note)


def _inputs(patch: StatusPatch, facts: NodeStatusFacts) -> Iterable[Input]:
    offer = patch.offer or LentOffer(event="", offered_at=EARLIEST, lent=())
    for lent in offer.lent:
        yield Input(
            name=lent.subject,
            value=lent.amount,
            unit=_unit(lent.subject),
            source=f"decision/{lent.decision}" if lent.decision else offer.event,
            observed_at=offer.offered_at,
        )
    for name, amount in sorted(facts.borrowed.items()):
        yield Input(name=f"requested {name}", value=amount, unit=_unit(subject_in(name)), source="pods of the node")
    if offer.degraded:
        yield Input(name="degraded", value=offer.degraded, unit="", source=offer.event, observed_at=offer.offered_at)


def _left(facts: NodeStatusFacts, policy: StatusPolicy) -> Iterable[Input]:
    """What other managers own: it stays as it is."""
    for amount in foreign_amounts(facts, policy):
        value = amount.manager or UNKNOWN_MANAGER
        yield Input(name=f"left {amount.name}", value=value, unit="", source="managed fields of the node")


def _unit(subject: str) -> str:
    return "milli-cores" if subject.endswith("cpu") else "bytes"
