"""Builds the decision records of an offer: one for each tier and resource, for mid only if it is enabled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.usecases.offer_inputs import UNITS, Facts, inputs_of, measured
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Alternative, DecisionRecord, Input, Replay
from slackwater.model.records import record
from slackwater.offers.amount_text import amount_text
from slackwater.offers.batch import compute, request_policy, slack
from slackwater.offers.node import InputSource, NodeState
from slackwater.offers.node_offer import NodeOffer
from slackwater.offers.offer import FUNCTION, Decided, replay_of, replay_of_all
from slackwater.offers.publish_gate import PublishGate
from slackwater.offers.snapshot import RESOURCES, NodeSnapshot, amount
from slackwater.offers.strategy import CountingPolicy, MidMode, Strategy


@record(frozen=True, slots=True)
class OfferContext:
    """The data shared by all records of an offer. `identity` returns the id for a subject."""

    before: NodeState
    after: NodeState
    snapshot: NodeSnapshot
    followed: FollowedStrategy
    offer: NodeOffer
    reason: Reason
    now: datetime
    trigger_id: str | None
    identity: Callable[[str], str]
    trace_id: str | None = None

    @property
    def strategy(self) -> Strategy:
        return self.followed.strategy


def subject_of(tier: str, resource: str) -> str:
    """Returns a subject such as `batch-cpu`."""
    return f"{tier}-{resource}"


def offer_records(context: OfferContext) -> list[DecisionRecord]:
    """Returns the records: inputs with sources, terms, alternatives, and the arguments to repeat the decision."""
    tiers = ("batch",) if context.strategy.mid_mode is MidMode.OFF else ("batch", "mid")
    shared = replay_of_all(context.snapshot, context.strategy, context.before.window_end)
    return [
        _record(context, tier, resource, shared | replay_of(tier, resource, _gate(context.before, tier, resource)))
        for tier in tiers
        for resource in RESOURCES
    ]


def _record(context: OfferContext, tier: str, resource: str, arguments: dict[str, object]) -> DecisionRecord:
    subject, strategy = subject_of(tier, resource), context.strategy
    both = context.offer.mid if tier == "mid" else context.offer.batch
    decided = both.cpu if resource == "cpu" else both.memory
    return DecisionRecord(
        id=context.identity(subject),
        kind=DecisionKind.OFFER,
        node=context.after.node,
        subject=subject,
        service="colocation",
        rule=strategy.mid_mode.value if tier == "mid" else strategy.policy(resource).value,
        reason=context.reason,
        decided_at=context.now,
        trigger_event_id=context.trigger_id,
        inputs=(*inputs_of(_facts(context, resource), tier), *_in_force(context, tier, resource)),
        terms=decided.terms,
        result=decided.value,
        unit=UNITS[resource],
        alternatives=(*_others(context, tier, resource), *_computed(decided, resource), *_refused(context)),
        replay=Replay(function=FUNCTION, arguments=arguments),
        trace_id=context.trace_id,
    )


def _facts(context: OfferContext, resource: str) -> Facts:
    lent = InputSource(context.identity(subject_of("mid", resource)), context.now)
    return Facts(
        context.after, context.snapshot, context.followed, resource, context.offer.mid_share, lent, context.now
    )


def _in_force(context: OfferContext, tier: str, resource: str) -> tuple[Input, ...]:
    """Returns the last published value, which hysteresis compares with; nothing before the first offer."""
    published = _gate(context.before, tier, resource).published
    return () if published is None else (measured("in_force", published, UNITS[resource], context.before.told_by),)


def _gate(state: NodeState, tier: str, resource: str) -> PublishGate:
    if tier == "mid":
        return state.mid_cpu if resource == "cpu" else state.mid_memory
    return state.cpu if resource == "cpu" else state.memory


def _others(context: OfferContext, tier: str, resource: str) -> tuple[Alternative, ...]:
    """Returns what other settings of the strategy would have offered."""
    if tier == "mid":
        whole = max(0, slack(resource, context.snapshot, context.strategy))
        why = {
            MidMode.STATIC: "a fixed share is configured; batch gets the rest",
            MidMode.DYNAMIC: "mid gets what prod requested and will not need, up to its threshold; batch the rest",
        }
        return (_alternative("all of the slack", whole, resource, why[context.strategy.mid_mode]),)
    if context.strategy.policy(resource) is CountingPolicy.USAGE:
        requested = request_policy(resource, context.snapshot, context.strategy)
        why_not = "policy usage is set: it lends what prod requested and will not need"
        return (_alternative("policy request", requested, resource, why_not),)
    by_usage = replace(context.strategy, cpu_policy=CountingPolicy.USAGE, memory_policy=CountingPolicy.USAGE)
    used = compute(resource, context.snapshot, by_usage, amount(context.offer.mid_share, resource)).offered
    why_not = f"policy {context.strategy.policy(resource).value} is set: requests count, used or not"
    return (_alternative("policy usage", used, resource, why_not),)


def _computed(decided: Decided, resource: str) -> tuple[Alternative, ...]:
    why = "the change is within the threshold or has not lasted long enough"
    return tuple(
        _alternative("the computed value", decided.value - term.value, resource, why)
        for term in decided.terms
        if term.name == "hysteresis"
    )


def _refused(context: OfferContext) -> tuple[Alternative, ...]:
    if not context.followed.reason:
        return ()
    what = "the node's annotation or label as written; its last usable value applies"
    return (Alternative(what=what, rejected_because=context.followed.reason),)


def _alternative(what: str, value: int, resource: str, why_not: str) -> Alternative:
    return Alternative(what=f"{what}: {amount_text(value, resource)}", rejected_because=why_not)
