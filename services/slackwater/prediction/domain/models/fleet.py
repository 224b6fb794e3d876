"""Members as machines see them: who is measured, sums by machine, and back to one number per machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slackwater.model.records import record
from slackwater.prediction.domain.models.port import Floats, Members, Peaks, Rows


@record(frozen=True, slots=True)
class Fleet:
    """Members grouped by machine; sums are over the machines that have any, in the order of `machines`."""

    members: Members
    starts: Rows
    """(machines present,) where each one's members begin."""
    machines: Rows
    """(machines present,) their numbers."""
    limit: Floats
    """(m,) the limits, with what is not finite or below zero as 0."""
    total: Floats
    """(machines present,) sum of the limits: the most that can be used."""

    def sums(self, values: Floats) -> Floats:
        """(m,) -> (machines present,)"""
        return np.add.reduceat(values, self.starts) if len(self.starts) else np.zeros(0)

    @property
    def counts(self) -> Rows:
        """(machines present,) how many members each has."""
        return np.diff(self.starts, append=len(self.members.machine))

    def place(self) -> Rows:
        """(m,) the position of each member's machine among `machines`."""
        return np.repeat(np.arange(len(self.starts)), self.counts)

    def everywhere(self, values: Floats) -> Floats:
        """(machines present,) -> (all machines,), 0 for those without members."""
        whole = np.zeros(len(self.members.capacity))
        whole[self.machines] = values
        return whole

    def answer(
        self,
        terms: dict[str, Floats],
        cold: np.ndarray[tuple[int], np.dtype[np.bool_]],
        inputs: dict[str, Floats] | None = None,
    ) -> Peaks:
        """Peaks from terms and what they were made of (machines present,), and from which members (m,) are cold."""
        peak = np.minimum(sum(terms.values(), np.zeros(len(self.machines))), self.total)
        share = self.sums(cold.astype(np.float64)) / self.counts
        return Peaks(
            self.everywhere(peak),
            {name: self.everywhere(values) for name, values in terms.items()},
            self.everywhere(share),
            {name: self.everywhere(values) for name, values in (inputs or {}).items()},
        )


def fleet_of(members: Members) -> Fleet:
    """Group members by machine; they come ordered."""
    machine = members.machine
    starts = np.flatnonzero(np.diff(machine, prepend=-1)) if len(machine) else np.zeros(0, dtype=np.intp)
    limit = np.maximum(np.where(np.isfinite(members.limit), members.limit, 0.0), 0.0)
    total = np.add.reduceat(limit, starts) if len(starts) else np.zeros(0)
    return Fleet(members, starts, machine[starts], limit, total)


def measured(members: Members, usage: Floats) -> tuple[Fleet, Floats]:
    """Only who was measured, and what each used: between 0 and its limit, because a limit holds."""
    known = np.isfinite(usage)
    if not known.all():
        members = replace(
            members,
            machine=members.machine[known],
            series=members.series[known],
            workload=members.workload[known],
            limit=members.limit[known],
            kind=None if members.kind is None else members.kind[known],
        )
        usage = usage[known]
    fleet = fleet_of(members)
    return fleet, np.clip(usage, 0.0, fleet.limit)
