"""A commit of quota as its invariants see it: trees, claims, uses and records, before and after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pydantic import TypeAdapter
from tests.world.plan import QUOTA
from tests.world.servers import Commit
from tests.world.trace import Step

from slackwater.events.claim_changed import ClaimChanged
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.serialized import type_of
from slackwater.fairshare.claims import HOLDING, ClaimState, QuotaClaim
from slackwater.fairshare.tree import ROOT
from slackwater.quota.domain.claim_replay import snapshot_of
from slackwater.quota.domain.ledger_records import KeptClaim
from slackwater.quota.ports import CLAIMS, ENDED_CLAIMS, TREES, USES

_KEPT: Final = TypeAdapter(KeptClaim)
Amounts = Mapping[str, int]
ADMITTED, REFUSED, RECLAIMED = "claim_admitted_", "claim_refused_", "claim_reclaimed_"


@dataclass(frozen=True, slots=True)
class ClaimChange:
    """One claim before and after a commit; `before` is None for a new one, `after` for one that is forgotten."""

    before: KeptClaim | None
    after: KeptClaim | None


@dataclass
class ClaimCommit:
    """What one transaction of quota wrote."""

    generations: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By tree, its generation before and after."""
    claims: dict[str, ClaimChange] = field(default_factory=dict)
    tables: dict[str, set[str]] = field(default_factory=dict)
    """By claim, the tables that have it after the commit, of those that were written."""
    uses: dict[str, tuple[Amounts, Amounts]] = field(default_factory=dict)
    """By quota, what it uses and may use afterwards."""
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    """Payloads of decision.recorded, whose large parts may be packed."""
    announced: list[Mapping[str, Any]] = field(default_factory=list)
    """Payloads of claim.changed."""

    @property
    def records(self) -> list[Mapping[str, Any]]:
        return [body["record"] for body in self.bodies]

    @cached_property
    def snapshot(self) -> Any:
        """The snapshot of its plan, from a record that can be replayed; None without one. Findings have none."""
        for body in self.bodies:
            if not body["record"].get("compact"):
                arguments = DecisionRecorded.model_validate(body).record.replay.arguments
                if "snapshot" in arguments:
                    return snapshot_of(arguments["snapshot"])
        return None

    def records_of(self, prefix: str) -> dict[str, Mapping[str, Any]]:
        """The records whose reason begins so, by claim."""
        return {record["subject"]: record for record in self.records if record["reason"].startswith(prefix)}


def claim_commit_of(step: Step) -> ClaimCommit | None:
    """The commit of a step, if quota made it and it is about claims. It is read once for all invariants."""
    if step.subject != QUOTA:
        return None
    if not step.decoded:
        commit: Commit = step.value
        tables = {table for table, _ in commit.written}
        step.decoded.append(_read(commit) if tables & {CLAIMS, ENDED_CLAIMS, TREES, USES} else None)
    found: ClaimCommit | None = step.decoded[0]
    return found


def _read(commit: Commit) -> ClaimCommit:
    read = ClaimCommit()
    for (table, _), (before, after) in commit.written.items():
        if table in (CLAIMS, ENDED_CLAIMS):
            _add_claim(read, commit, table, before, after)
        elif table == TREES:
            old, new = (_row(commit, table, values) for values in (before, after))
            read.generations[(new or old or {})["tree"]] = (
                old["generation"] if old else 0,
                new["generation"] if new else 0,
            )
        elif table == USES and after is not None:
            row = _row(commit, table, after) or {}
            read.uses[row["quota"]] = row["used"].content, row["ceiling"].content
        elif table == "outbox" and before is None and after is not None:
            if after[2] == type_of(DecisionRecorded):
                read.bodies.append(json.loads(after[5]))
            elif after[2] == type_of(ClaimChanged):
                read.announced.append(json.loads(after[5]))
    return read


def _add_claim(read: ClaimCommit, commit: Commit, table: str, before: Any, after: Any) -> None:
    """A claim that ends leaves one table for the other: two rows of one change."""
    old, new = (_kept(commit, table, values) for values in (before, after))
    name = (new or old).claim.id  # type: ignore[union-attr] # a written row has one of them
    known = read.claims.get(name, ClaimChange(None, None))
    read.claims[name] = ClaimChange(old or known.before, new or known.after)
    if new is not None:
        read.tables.setdefault(name, set()).add(table)


def _row(commit: Commit, table: str, values: Any) -> Mapping[str, Any] | None:
    names = commit.schema.tables[table].definition.names
    return None if values is None else dict(zip(names, values, strict=True))


def _kept(commit: Commit, table: str, values: Any) -> KeptClaim | None:
    row = _row(commit, table, values)
    return None if row is None else _KEPT.validate_python(row["document"].content)


def kept_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[KeptClaim]:
    """The claims of rows of a table."""
    return (_KEPT.validate_python(row["document"].content) for row in rows)


class TreeBooks:
    """The claims of all trees after each commit: what quota holds to, counted by hand."""

    def __init__(self) -> None:
        self.claims: dict[str, KeptClaim] = {}

    def apply(self, commit: ClaimCommit) -> None:
        for name, change in commit.claims.items():
            if change.after is None:
                self.claims.pop(name, None)
            else:
                self.claims[name] = change.after

    def of_tree(self, tree: str) -> list[QuotaClaim]:
        return [kept.claim for kept in self.claims.values() if kept.tree == tree]

    def held(self, tree: str, quotas: set[str] | None = None) -> dict[str, int]:
        """What the claims of these quotas hold, or those of all."""
        return summed(
            claim
            for claim in self.of_tree(tree)
            if claim.state in HOLDING and (quotas is None or claim.quota in quotas)
        )

    def queued(self, tree: str, quota: str) -> list[QuotaClaim]:
        return [c for c in self.of_tree(tree) if c.state is ClaimState.QUEUED and c.quota == quota]


def summed(claims: Any) -> dict[str, int]:
    """The sum of what claims were admitted with, by resource."""
    found: dict[str, int] = {}
    for claim in claims:
        for resource, amount in claim.admitted.items():
            found[resource] = found.get(resource, 0) + amount
    return found


def path_of(parents: Mapping[str, str], quota: str) -> list[str]:
    """The quota and those above it, without the root. One that is unknown stands alone."""
    path = [quota]
    while (above := parents.get(path[-1], ROOT)) != ROOT and above not in path:
        path.append(above)
    return path


def below(parents: Mapping[str, str], quota: str) -> set[str]:
    """The quota and all below it."""
    return {name for name in {*parents, quota} if quota in path_of(parents, name)}
