"""What may be asked of a claim: to be submitted, to be marked as started, to end."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol

from slackwater.fairshare.claim_index import ClaimIndex
from slackwater.fairshare.claims import ENDED, ClaimState, QuotaClaim, end, start
from slackwater.model.errors import Conflict, NotFound
from slackwater.model.records import record

INTERRUPTED: Final = "the request was interrupted; repeat it"
"""The writer of several requests was stopped: they may have been carried out, so they are not refused."""

MOST_QUEUED, MOST_QUEUED_IN_TREE = 2000, 5000
"""Claims that may wait in one quota and in its tree: each request and each round looks at all of them (10 us each)."""


class ClaimRequest(Protocol):
    """One request about one claim."""

    @property
    def id(self) -> str: ...

    @property
    def quota(self) -> str: ...

    def applied(self, found: QuotaClaim | None, now_s: float) -> QuotaClaim | None:
        """Returns the claim as it then is; None if nothing changes. Raises NotFound, Conflict."""
        ...


@record(frozen=True, slots=True)
class Submission:
    """A new claim. The same again changes nothing."""

    claim: QuotaClaim

    @property
    def id(self) -> str:
        return self.claim.id

    @property
    def quota(self) -> str:
        return self.claim.quota

    def applied(self, found: QuotaClaim | None, now_s: float) -> QuotaClaim | None:
        if found is None:
            return replace(self.claim, submitted_s=now_s)
        if (found.quota, found.tier, dict(found.request)) != (self.quota, self.claim.tier, dict(self.claim.request)):
            said = f"id: claim {self.id} is another one, of quota {found.quota}; give each claim an id of its own"
            raise Conflict(said, code="claim_exists", field="id")
        return None


@record(frozen=True, slots=True)
class Release:
    """What ran has ended, or is wanted no longer. A claim that has ended stays as it is."""

    id: str
    quota: str

    def applied(self, found: QuotaClaim | None, now_s: float) -> QuotaClaim | None:
        claim = existing(found, self.id, self.quota)
        if claim.state in ENDED:
            return None
        return end(claim, _END_OF.get(claim.state, ClaimState.RELEASED), now_s)


_END_OF = {ClaimState.QUEUED: ClaimState.WITHDRAWN, ClaimState.RECLAIMING: ClaimState.RECLAIMED}


@record(frozen=True, slots=True)
class StartNotice:
    """The workload runs."""

    id: str
    quota: str

    def applied(self, found: QuotaClaim | None, now_s: float) -> QuotaClaim | None:
        claim = existing(found, self.id, self.quota)
        if claim.state in ENDED or claim.state is ClaimState.QUEUED:
            said = f"claim {self.id} is {claim.state}: only what is admitted starts"
            raise Conflict(said, code="claim_not_admitted", field="id")
        started = start(claim, now_s)
        return None if started is claim else started


def existing(found: QuotaClaim | None, claim: str, quota: str) -> QuotaClaim:
    """Returns the claim. Raises NotFound if there is none of this quota."""
    if found is None or found.quota != quota:
        raise NotFound(f"quota {quota} has no claim {claim}", code="claim_not_found")
    return found


def require_place(index: ClaimIndex, quota: str) -> None:
    """Raises Conflict where no further claim of a quota may wait. In a full tree each quota with a queue may have an
    equal share of what the tree may have, so that one fills its own alone."""
    waiting = {name: len(claims) for name, claims in index.queued.items()}
    own, others = waiting.pop(quota, 0), sum(waiting.values())
    most = MOST_QUEUED
    if own + others >= MOST_QUEUED_IN_TREE:
        most = min(most, MOST_QUEUED_IN_TREE // (len(waiting) + 1))
    if own >= most:
        said = f"{own} claims of quota {quota} wait, and no more than {most} may; withdraw some, or ask again later"
        raise Conflict(said, code="queue_full")
