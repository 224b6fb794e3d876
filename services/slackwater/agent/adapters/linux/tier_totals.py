"""Cumulative totals of a tier whose pods have no cgroup in common, from those of its pods.

In every interval the tier waited at least as long as the pod that waited longest, and no file tells more: the kernel
counts the time in which any task waits per cgroup, and how the times of two cgroups overlap is not known. So pressure
of the tier is that of its worst pod, which is what a waterline is there to protect. Bytes are sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.samples import PsiTotals

Totals = Mapping[str, tuple[PsiTotals, int | None]]
"""By pod: its pressure, and the bytes that it read again."""


@dataclass(slots=True)
class TierTotals:
    """Totals since the agent started; None until something was read. A pod counts from its second sample on, and a
    counter that went back counts as no change."""

    psi: PsiTotals = field(default_factory=PsiTotals)
    refault_bytes: int | None = None
    _before: Totals = field(default_factory=dict)

    def add(self, pods: Totals) -> None:
        """Take in one sample of every pod of the tier."""
        self.psi, self.refault_bytes = self.after(pods), self._refaults(pods)
        self._before = dict(pods)

    def after(self, pods: Totals) -> PsiTotals:
        """The pressure that a sample would lead to, without taking it in."""
        known = [(self._before[uid][0], now) for uid, (now, _) in pods.items() if uid in self._before]
        return PsiTotals(
            _grown(self.psi.cpu_some_us, [(one.cpu_some_us, now.cpu_some_us) for one, now in known]),
            _grown(self.psi.memory_some_us, [(one.memory_some_us, now.memory_some_us) for one, now in known]),
            _grown(self.psi.io_some_us, [(one.io_some_us, now.io_some_us) for one, now in known]),
        )

    def _refaults(self, pods: Totals) -> int | None:
        rises = [
            max(0, now - before)
            for uid, (_, now) in pods.items()
            if now is not None and (before := self._before.get(uid, (None, None))[1]) is not None
        ]
        is_read = any(now is not None for _, now in pods.values())
        return (self.refault_bytes or 0) + sum(rises) if is_read else self.refault_bytes


def _grown(total: int | None, samples: list[tuple[int | None, int | None]]) -> int | None:
    """A total, larger by the largest rise; unknown while no pod has told two values."""
    rises = [max(0, now - before) for before, now in samples if before is not None and now is not None]
    return (total or 0) + max(rises) if rises else total
