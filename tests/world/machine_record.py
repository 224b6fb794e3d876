"""What the record says of the machines: files written, pods started, signalled, ended; and offers they follow."""

from __future__ import annotations

from tests.world.invariants.payloads import payload_of
from tests.world.machine.kernel import Write
from tests.world.machine.machine import Effect
from tests.world.machine.station import Station
from tests.world.trace import Kind, Step
from tests.world.world import World

from slackwater.events.resources_offered import ResourcesOffered

_KINDS = {"pod_started": Kind.POD_STARTED, "pod_ended": Kind.POD_ENDED, "signal": Kind.POD_SIGNALLED}
_OFFERS = f"sw.v1.{ResourcesOffered.TYPE}."


def recorded(world: World, station: Station) -> Station:
    """Record what happens on a machine, and place its batch pods by the newest offer of its node."""

    def wrote(_: Station, write: Write) -> None:
        detail = {"before": write.before, "after": write.after, "by": write.by}
        world.record(Kind.KNOB_WRITTEN, f"{station.node}:{write.path}", detail=detail, value=(station, write))

    def happened(_: Station, effect: Effect) -> None:
        detail = {"what": effect.what, "protected": effect.is_protected}
        world.record(_KINDS[effect.kind], effect.pod.uid, detail=detail, value=(station, effect))

    def opened(_: Station) -> None:
        world.record(Kind.RECOVERED, station.node, value=station)

    def offered(step: Step) -> None:
        subject = step.subject
        if subject.startswith(_OFFERS) and subject.endswith(f".{station.node}"):
            offer = payload_of(step, ResourcesOffered)
            newest[:] = [] if offer is None else [offer]

    newest: list[ResourcesOffered] = []
    station.on_write, station.on_effect, station.on_open = wrote, happened, opened
    station.workload.offered = lambda: newest[0] if newest else None
    world.trace.listen(Kind.STORED, offered)
    return station
