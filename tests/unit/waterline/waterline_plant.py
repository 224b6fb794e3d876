"""A plant: the CPU of one node, shared by weight."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Plant:
    """CPU of one node shared by weight (water-filling), every pod bounded by what it wants and by its limit.

    `blindness` is the part of the waiting that some-pressure does not show (0 = all of it is seen).
    """

    capacity: int = 2000
    prod_demand: int = 0
    prod_weight: float = 10.0
    blindness: float = 0.0
    batch: dict[str, int] = field(default_factory=dict)
    originals: dict[str, int | None] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)

    def _wanted(self) -> dict[str, int]:
        wanted = {"prod": self.prod_demand}
        for uid, demand in self.batch.items():
            bounds = [demand, self.limits.get(uid), self.originals.get(uid), self.capacity]
            wanted[uid] = min(bound for bound in bounds if bound is not None)
        return wanted

    def usages(self) -> dict[str, int]:
        """The share of each pod."""
        wanted, given = self._wanted(), dict.fromkeys(self._wanted(), 0.0)
        free, hungry = float(self.capacity), {uid for uid, want in wanted.items() if want > 0}
        while hungry and free > 1e-6:
            weights = {uid: self.prod_weight if uid == "prod" else 1.0 for uid in hungry}
            total, spent = sum(weights.values()), 0.0
            for uid in sorted(hungry):
                slice_ = min(free * weights[uid] / total, wanted[uid] - given[uid])
                given[uid] += slice_
                spent += slice_
            hungry = {uid for uid in hungry if wanted[uid] - given[uid] > 1e-6}
            free -= spent
        return {uid: int(amount) for uid, amount in given.items()}

    def pressure(self) -> float:
        """The share of its wanted time that prod waited, less what some-pressure does not show."""
        if self.prod_demand == 0:
            return 0.0
        lacking = self.prod_demand - self.usages()["prod"]
        return (1 - self.blindness) * lacking / self.prod_demand
