"""No claim is lost and none is doubled: what a client was told is in the ledger, and nothing else is."""

from __future__ import annotations

from typing import ClassVar

from tests.world.changes import Confirmed
from tests.world.claimers import RELEASE, SUBMIT, Answer, Ask
from tests.world.invariants import Invariant, Violation
from tests.world.invariants.quota.claim_commits import ClaimChange, ClaimCommit, claim_commit_of, kept_rows
from tests.world.plan import QUOTA
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.fairshare.claims import ENDED, TRANSITIONS, ClaimState, QuotaClaim
from slackwater.quota.domain.ledger_records import KeptClaim
from slackwater.quota.ports import CLAIMS, ENDED_CLAIMS

NOT_FOUND = "claim_not_found"
_SAME = ("id", "quota", "tier", "request", "priority", "partial_minimum", "submitted_s")


class ClaimsAreFoundOnce(Invariant):
    """A claim is in the ledger only if a client asked for it, as it asked, and once. Its states follow each other as
    its life allows, its amounts stay, each new state is announced in its commit, and its end is final. What a client
    was told of a claim was committed before; at rest the ledger has each claim that a client was told of."""

    NAME = "claims are found once"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.ASKED, Kind.ANSWERED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._asked: dict[str, QuotaClaim] = {}
        self._history: dict[str, list[KeptClaim]] = {}
        """What was committed of each claim, oldest first."""
        self._told: dict[str, KeptClaim] = {}
        self._released: set[str] = set()
        """Claims whose release was confirmed."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.ASKED:
            self._ask(step.subject, step.value)
        elif step.kind is Kind.ANSWERED:
            self._answer(step.subject, step.value)
        elif (commit := claim_commit_of(step)) is not None:
            self._commit(commit)

    def _ask(self, name: str, ask: Ask) -> None:
        if ask.verb == SUBMIT and ask.claim is not None:
            self._asked.setdefault(name, ask.claim)

    def _answer(self, name: str, answer: Answer) -> None:
        kept = answer.kept
        if kept is None:
            if answer.code == NOT_FOUND and name in self._told:
                before = self._told[name].claim.state
                raise Violation(f"a client was told that {name} is {before}, and now that there is no such claim")
            return
        history = self._history.get(name, [])
        if not any(_is_same(known.claim, kept.claim) for known in history):
            was = [known.claim.state.value for known in history]
            raise Violation(
                f"a client was told that {name} is {kept.claim.state} ({kept.claim.admitted}); it was {was}"
            )
        self._told[name] = kept
        if answer.verb == RELEASE:
            self._released.add(name)
            if kept.claim.state not in ENDED:
                raise Violation(f"the release of {name} was confirmed, and it is {kept.claim.state}")

    def _commit(self, commit: ClaimCommit) -> None:
        announced = [(one["claim"], one["state"]) for one in commit.announced]
        for name, change in commit.claims.items():
            self._check(name, change)
            if commit.tables.get(name, set()) == {CLAIMS, ENDED_CLAIMS}:
                raise Violation(f"{name} is in both tables")
            after, before = change.after, change.before
            is_new = after is not None and (before is None or before.claim.state is not after.claim.state)
            if is_new and after is not None and announced.count((name, after.claim.state.value)) != 1:
                raise Violation(f"{name} becomes {after.claim.state}; its commit announces {announced}")

    def _check(self, name: str, change: ClaimChange) -> None:
        history = self._history.setdefault(name, [])
        if change.after is None:
            raise Violation(f"{name} is in no table any more")
        after, asked = change.after.claim, self._asked.get(name)
        if asked is None:
            raise Violation(f"{name} is committed, and no client has asked for it")
        given = {part: getattr(after, part) for part in _SAME if part != "submitted_s"}
        if given != {part: getattr(asked, part) for part in given}:
            raise Violation(f"{name} is committed as {after}; asked for: {asked}")
        before = history[-1].claim if history else None
        if (before is None) is not (change.before is None):
            raise Violation(f"{name} is inserted a second time: it was {before and before.state}")
        if before is not None:
            self._follow(before, after)
        if any(amount > after.request.get(key, 0) for key, amount in after.admitted.items()):
            raise Violation(f"{name} requests {after.request} and is admitted with {after.admitted}")
        history.append(change.after)

    @staticmethod
    def _follow(before: QuotaClaim, after: QuotaClaim) -> None:
        if before.state in ENDED and before != after:
            raise Violation(f"{before.id} has ended as {before.state} and is {after.state} now")
        if before.state is not after.state and after.state not in _reachable(before.state):
            raise Violation(f"{before.id} becomes {after.state} from {before.state}")
        if before.submitted_s != after.submitted_s:
            raise Violation(f"{before.id} was submitted at {before.submitted_s} and at {after.submitted_s}")
        if before.state is not ClaimState.QUEUED and before.admitted != after.admitted:
            raise Violation(f"{before.id} holds {after.admitted}; it was admitted with {before.admitted}")

    def at_rest(self) -> None:
        if not self.world.plan.claimers:
            return
        schema = self.world.postgres.schemas[QUOTA]
        found: dict[str, QuotaClaim] = {}
        for table in (CLAIMS, ENDED_CLAIMS):
            names = schema.tables[table].definition.names
            rows = [dict(zip(names, values, strict=True)) for values in schema.tables[table].committed()]
            for kept in kept_rows(rows):
                if kept.claim.id in found:
                    raise Violation(f"{kept.claim.id} is found twice")
                found[kept.claim.id] = kept.claim
        for name, kept in self._told.items():
            if name not in found:
                raise Violation(f"a client was told that {name} is {kept.claim.state}; no table has it")
        unreleased = [name for name in self._released if found[name].state not in ENDED]
        if unreleased:
            raise Violation(f"the release of {unreleased[0]} was confirmed; it is {found[unreleased[0]].state}")


def _is_same(known: QuotaClaim, told: QuotaClaim) -> bool:
    return (known.state, known.admitted, known.quota) == (told.state, told.admitted, told.quota)


def _reachable(state: ClaimState) -> set[ClaimState]:
    """The states that one commit may lead to: a request and the plan that follows it."""
    once = set(TRANSITIONS[state])
    return once.union(*(TRANSITIONS[one] for one in once))


class QuotasInUseStay(Invariant):
    """A quota is deleted only if it has no claim that was there before the operator asked, and still is."""

    NAME = "quotas in use stay"
    KINDS: ClassVar = (Kind.COMMITTED, Kind.DELETED)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._live: dict[str, tuple[float, str]] = {}
        """By claim that has not ended, since when and in which quota."""

    def on_step(self, step: Step) -> None:
        if step.kind is Kind.DELETED:
            self._check(step.value)
        elif (commit := claim_commit_of(step)) is not None:
            for name, change in commit.claims.items():
                if change.after is None or change.after.claim.state in ENDED:
                    self._live.pop(name, None)
                else:
                    self._live.setdefault(name, (step.at, change.after.claim.quota))

    def _check(self, confirmed: Confirmed) -> None:
        planned = confirmed.planned
        if planned.kind != "ElasticQuota" or not confirmed.is_done:
            return
        for name, (since, quota) in self._live.items():
            if quota == planned.name and since < confirmed.asked_at:
                raise Violation(f"{quota} is deleted; {name} is in it since {since:.3f} s")


INVARIANTS = (ClaimsAreFoundOnce, QuotasInUseStay)
