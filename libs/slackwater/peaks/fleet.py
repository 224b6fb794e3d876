"""Members grouped by machine: filters unmeasured members, sums by machine, and spreads results over all machines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slackwater.model.records import record
from slackwater.peaks.port import Floats, Members, Peaks, Rows


@record(frozen=True, slots=True)
class MachineMembers:
    """Members grouped by machine. Sums are over the machines with members, in the order of `machines`."""

    members: Members
    starts: Rows
    """(machines present,) index of each machine's first member."""
    machines: Rows
    """(machines present,) row ids of the machines."""
    limit: Floats
    """(m,) the limits; 0 where not finite or negative."""
    total: Floats
    """(machines present,) sum of the limits: the maximum usage."""

    def sums(self, values: Floats) -> Floats:
        """(m,) -> (machines present,)"""
        return np.add.reduceat(values, self.starts) if len(self.starts) else np.zeros(0)

    @property
    def counts(self) -> Rows:
        """(machines present,) number of members of each machine."""
        return np.append(self.starts[1:], len(self.members.machine)) - self.starts

    def place(self) -> Rows:
        """(m,) the index of each member's machine in `machines`."""
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
        """Builds peaks from terms and their inputs (machines present,), and the cold members (m,)."""
        peak = np.minimum(sum(terms.values(), np.zeros(len(self.machines))), self.total)
        share = self.sums(cold.astype(np.float64)) / self.counts
        return Peaks(
            self.everywhere(peak),
            {name: self.everywhere(values) for name, values in terms.items()},
            self.everywhere(share),
            {name: self.everywhere(values) for name, values in (inputs or {}).items()},
        )


def machine_members(members: Members) -> MachineMembers:
    """Groups members by machine; members are ordered by machine."""
    machine = members.machine
    starts = np.append(0, np.flatnonzero(machine[1:] != machine[:-1]) + 1) if len(machine) else np.zeros(0, np.intp)
    limit = np.maximum(np.where(np.isfinite(members.limit), members.limit, 0.0), 0.0)
    total = np.add.reduceat(limit, starts) if len(starts) else np.zeros(0)
    return MachineMembers(members, starts, machine[starts], limit, total)


def measured(members: Members, usage: Floats) -> tuple[MachineMembers, Floats]:
    """Returns the measured members and their usage, clipped to 0 and the limit, because a limit is enforced."""
    is_measured = np.isfinite(usage)
    if not is_measured.all():
        members = replace(
            members,
            machine=members.machine[is_measured],
            series=members.series[is_measured],
            workload=members.workload[is_measured],
            limit=members.limit[is_measured],
            kind=None if members.kind is None else members.kind[is_measured],
        )
        usage = usage[is_measured]
    fleet = machine_members(members)
    return fleet, np.clip(usage, 0.0, fleet.limit)
