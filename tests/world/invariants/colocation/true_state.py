"""At rest the offers are those of the formulas on the true state of the machines."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.world.invariants import Invariant, Violation
from tests.world.machine.station import Station
from tests.world.processes import State
from tests.world.settling import has_settled

from slackwater.colocation.adapters.states import state_of
from slackwater.colocation.settings import ColocationSettings
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier
from slackwater.offers.node import NodeState
from slackwater.offers.node_offer import Gates, decide_node
from slackwater.offers.snapshots import snapshot_of

OWNERS = (Tier.PROD, Tier.MID)


class OffersAreOfTheTrueState(Invariant):
    """Colocation knows the capacity and the owners of each machine, and publishes what the formulas give for what it
    knows, as near as its hysteresis lets it: an offer is below that only while its gate counts the windows of a rise,
    up to the newest one. A plan that gives too little quiet time is not checked."""

    NAME = "offers are of the true state"
    KINDS: ClassVar = ()

    def at_rest(self) -> None:
        if self.world.plan.changes or not has_settled(self.world.plan):  # strategies of operators are not followed here
            return
        known = {row["node"]: row for row in self._rows()}
        for place, station in self.world.stations.items():
            process = self.world.places[place].process
            if process is None or process.state is not State.RUNNING:
                continue
            row = known.get(station.node)
            if row is None:
                raise Violation(f"colocation does not know {station.node}")
            facts, held = (getattr(row[column], "text", row[column]) for column in ("facts", "held"))  # jsonb or text
            self.check(station, state_of(facts, held))

    def check(self, station: Station, state: NodeState) -> None:
        """Raises Violation."""
        hardware = station.machine.hardware
        capacity = Resources(hardware.cpus * 1000, hardware.memory_bytes)
        if state.capacity != capacity:
            raise Violation(f"{station.node} has {capacity}; colocation knows {state.capacity}")
        owners = {one.pod.uid for one in station.machine.running() if one.pod.tier in OWNERS}
        seen = {pod.uid for pod in state.pods if pod.tier in OWNERS}
        if owners != seen:
            raise Violation(f"{station.node} has owners {sorted(owners)}; colocation knows {sorted(seen)}")
        strategy = ColocationSettings(**self.world.plan.settings.get("colocation", {})).strategy()
        now = self.world.clock_of("colocation-0").now()
        snapshot = snapshot_of(state, strategy, now)
        if snapshot is None:
            raise Violation(f"{station.node} was never measured as far as colocation knows")
        offer = decide_node(snapshot, strategy, Gates(), state.window_end)
        for what, gate, published, computed in (
            ("batch CPU", state.cpu, state.batch.cpu_milli, offer.batch.value.cpu_milli),
            ("batch memory", state.memory, state.batch.memory_bytes, offer.batch.value.memory_bytes),
        ):
            allowed = max(published, computed) * strategy.diff_threshold * 2
            # No window counts yet if the newest one is that in which a delayed value was published.
            counts = gate.rising_windows < strategy.rise_windows and gate.last_window == state.window_end
            is_rising = counts and gate.rising_to > published
            if abs(published - computed) > allowed and (published > computed or not is_rising):
                raise Violation(f"{station.node} offers {published} of {what}; the formula gives {computed}")

    def _rows(self) -> list[dict[str, Any]]:
        table = self.world.postgres.schemas["colocation"].tables["nodes"]
        return [dict(zip(table.definition.names, values, strict=True)) for values in table.committed()]


INVARIANTS = (OffersAreOfTheTrueState,)
