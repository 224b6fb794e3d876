"""No write of a former owner takes effect."""

from __future__ import annotations

from typing import ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.servers import Commit
from tests.world.trace import Kind, Step


class Fencing(Invariant):
    """A commit under a fence concerns only partitions that its member owns at that moment, under that epoch."""

    NAME = "fencing"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def on_step(self, step: Step) -> None:
        commit: Commit = step.value
        for partition, epoch in commit.epochs.items():
            lease = commit.book.leases[partition]
            if (lease.owner, lease.epoch) != (commit.member, epoch):
                raise Violation(
                    f"{step.subject}: {commit.member} committed to partition {partition} under epoch {epoch};"
                    f" {lease.owner} owns it under epoch {lease.epoch}"
                )


INVARIANTS = (Fencing,)
