"""No write of a former owner takes effect."""

from __future__ import annotations

from typing import ClassVar

from tests.world.attacks import is_forged
from tests.world.invariants import Invariant, Violation
from tests.world.plan import DESCHEDULER, MIGRATION, QUOTA
from tests.world.servers import Commit
from tests.world.trace import Kind, Step

from slackwater.descheduler.domain.cycle_state import OWNER_KEY
from slackwater.events.envelope import partition_in
from slackwater.model.identifiers import partition_of

UNFENCED = ("resource.changed",)
"""Event types that belong to no partition."""


class Fencing(Invariant):
    """An event of a partition is committed only by the member that owns the partition at that moment. The generation
    of a tree keeps the replicas of quota apart instead (decision 0107, tests.world.invariants.quota), that of the
    ledger those of migration (0112). One partition is for all of the descheduler (0136)."""

    NAME = "fencing"
    KINDS: ClassVar = (Kind.COMMITTED,)

    def on_step(self, step: Step) -> None:
        commit: Commit = step.value
        events = [one for one in commit.events if not (one.type.startswith(UNFENCED) or is_forged(one.id))]
        if not events or commit.service in (QUOTA, MIGRATION):
            return
        owners = {row["partition"]: row["owner"] for row in commit.rows("leases")}
        for event in events:
            of_all = commit.service == DESCHEDULER
            partition = partition_of(OWNER_KEY) if of_all else partition_in(event.subject)
            if owners.get(partition) != commit.member:
                owner = owners.get(partition)
                raise Violation(f"{commit.member} committed {event.subject} ({event.id}); {owner} owns {partition}")


INVARIANTS = (Fencing,)
