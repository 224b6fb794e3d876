"""Explains a number, a pod or a decision from the records."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from slackwater.console.domain.chain import chain_of
from slackwater.console.domain.pod_story import PodIdentity, PodWhy, narrowed, part_of
from slackwater.console.domain.views import Chain, EvictionView, NodeView, ObservationView, PodView, Why
from slackwater.console.domain.waterfall import adds_up, waterfall_of
from slackwater.console.ports import ReadQueries
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord
from slackwater.model.errors import InvalidInput, NotFound

MID_SUBJECTS = ("mid-cpu", "mid-memory")
A = TypeVar("A", ObservationView, EvictionView)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with up to three similar names, or all names if there are few, or empty text."""
    names = sorted(set(known))
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return "; did you mean " + " or ".join(repr(known_name) for known_name in close) + "?"
    return "; known: " + ", ".join(names) if 0 < len(names) <= 8 else ""


async def existing_node(reads: ReadQueries, name: str) -> NodeView:
    """The node, or NotFound with similar names."""
    found = await reads.node(name)
    if found is None:
        hint = did_you_mean(name, [node.name for node in await reads.nodes()])
        raise NotFound(f"node {name!r} is not known{hint}", code="node_not_found", field="node")
    return found


async def existing_decision(reads: ReadQueries, decision_id: str) -> DecisionRecord:
    """The record, or NotFound."""
    record = await reads.decision(decision_id)
    if record is None:
        message = f"decision {decision_id!r} is not known; list them with `slackwater get decisions`"
        raise NotFound(message, code="decision_not_found", field="id")
    return record


async def why(reads: ReadQueries, node: str, subject: str, at: datetime) -> Why:
    """The record about `subject` that was in force at `at`. Raises NotFound if there was none."""
    await existing_node(reads, node)
    record = await record_in_force(reads, node, subject, at)
    if record is None:
        raise await _nothing_in_force(reads, node, subject, at)
    rows = waterfall_of(record)
    return Why(
        node=node,
        subject=subject,
        at=at,
        in_force_since=record.decided_at,
        result=record.result,
        unit=record.unit,
        waterfall=rows,
        adds_up=adds_up(rows, record.result),
        inputs=record.inputs,
        record=record,
    )


async def record_in_force(reads: ReadQueries, node: str, subject: str, at: datetime) -> DecisionRecord | None:
    """The newest record about `subject` at `at`; None for a share of mid that was no longer offered then."""
    return None if await mid_has_no_share(reads, node, subject, at) else await reads.decision_at(node, subject, at)


async def mid_has_no_share(reads: ReadQueries, node: str, subject: str, at: datetime) -> bool:
    """Whether `subject` is of mid, and the known offer in force at `at` had no mid share."""
    offer = await reads.offer_at(node, at) if subject in MID_SUBJECTS else None
    return offer is not None and subject not in offer.decision_ids


async def _nothing_in_force(reads: ReadQueries, node: str, subject: str, at: datetime) -> NotFound:
    known = await reads.subjects(node)
    if await mid_has_no_share(reads, node, subject, at):
        text = (
            f"nothing was offered to mid on node {node} at {at:%Y-%m-%d %H:%M:%S} UTC: by its strategy then mid has no"
            " share (midReclaimMode: off)"
        )
        return NotFound(text, code="nothing_in_force", field="at")
    if subject in known:
        text = f"nothing was decided about {subject} of node {node} by {at:%Y-%m-%d %H:%M:%S} UTC; ask for a later time"
        return NotFound(text, code="nothing_in_force", field="at")
    hint = did_you_mean(subject, known) or "; nothing has been decided about this node yet"
    return NotFound(f"subject {subject!r} is not known of node {node}{hint}", code="subject_not_found", field="subject")


async def chain(reads: ReadQueries, decision_id: str) -> Chain:
    """The chain from the event that caused the decision to its measured effect."""
    record = await existing_decision(reads, decision_id)
    return chain_of(
        record,
        trigger=await reads.event(record.trigger_event_id) if record.trigger_event_id else None,
        observations=_of_its_node(record, await reads.observations(decision_id)),
        effect=await reads.effect(decision_id),
        evictions=_of_its_node(record, await reads.evictions(decision_id)),
    )


def _of_its_node(record: DecisionRecord, answers: Sequence[A]) -> Sequence[A]:
    """Returns the answers of the decision's node: an agent may name any decision. One about no single node (a claim of
    a quota) has a name with a colon in place of its node, and is answered by those that were asked."""
    return [answer for answer in answers if ":" in record.node or answer.node == record.node]


async def why_pod(
    reads: ReadQueries,
    pod: str,
    node: str | None,
    namespace: str | None,
    at: datetime | None,
    limit: int,
    kind: DecisionKind | None = None,
) -> PodWhy:
    """The decisions about one pod by `at`, of one kind if given. Raises NotFound for an unknown pod, InvalidInput that
    lists the pods if the name is ambiguous."""
    identities = await reads.pods_called(pod, node)
    meant = narrowed(identities, pod, node, namespace, await _started_after(reads, identities, at))
    if not meant:
        raise await _no_such_pod(reads, pod, node, namespace)
    if len(meant) > 1:
        raise _ambiguous(pod, meant)
    (identity,) = meant
    parts = []
    for record in await reads.decisions_about(identity.uid, limit, at, kind):
        evictions = _of_its_node(record, await reads.evictions(record.id))
        part = part_of(record, identity.uid, await reads.effect(record.id), evictions)
        parts += [] if part is None else [part]
    return PodWhy(identity, await _running(reads, identity), tuple(parts))


async def _started_after(reads: ReadQueries, found: Iterable[PodIdentity], at: datetime | None) -> frozenset[str]:
    """The uids of the running pods that had not started at `at`, when another pod may have had the name."""
    if at is None:
        return frozenset()
    nodes = {identity.node for identity in found if identity.is_running}
    return frozenset([pod.uid for node in nodes for pod in await reads.pods(node) if pod.started_at > at])


async def _running(reads: ReadQueries, identity: PodIdentity) -> PodView | None:
    if not identity.is_running:
        return None
    return next((pod for pod in await reads.pods(identity.node) if pod.uid == identity.uid), None)


def _ambiguous(pod: str, meant: Iterable[PodIdentity]) -> InvalidInput:
    places = "; ".join(
        f"{identity.namespace or 'no namespace'}/{identity.name} on {identity.node} (uid {identity.uid})"
        for identity in meant
    )
    text = f"{pod!r} means several pods: {places}. Choose one by node, by namespace, or by its uid instead of the name"
    return InvalidInput(text, code="pod_ambiguous", field="pod")


async def _no_such_pod(reads: ReadQueries, pod: str, node: str | None, namespace: str | None) -> NotFound:
    within = "".join(f" in {what} {name!r}" for what, name in (("node", node), ("namespace", namespace)) if name)
    hint = did_you_mean(pod, [pod.name for pod in await reads.pods(node)])
    text = f"pod {pod!r}{within} is not known: it does not run, and no stored decision has considered it{hint}"
    return NotFound(text, code="pod_not_found", field="pod")
