"""What is left on a node for reservations is of what the node really has."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.clock import EPOCH
from tests.support.reports import described

from slackwater.cluster.fold import ClusterFold
from slackwater.events.envelope import event_of
from slackwater.migration.domain.node_rooms import rooms_of


@pytest.mark.parametrize(("annotations", "cpu_milli"), [({}, 4000), ({"raw": '{"cpu": "3", "memory": "6Gi"}'}, 3000)])
def test_the_raw_allocatable_of_an_amplified_node_bounds_its_room(annotations: dict[str, str], cpu_milli: int) -> None:
    marks = {f"node.koordinator.sh/{name}-allocatable": text for name, text in annotations.items()}
    data = described("n", EPOCH, cpu_milli=4000)
    fold = ClusterFold()
    fold.apply(
        event_of(data.model_copy(update={"facts": replace(data.facts, annotations=marks)}), source="t", time=EPOCH)
    )
    (room,) = rooms_of(fold.view(EPOCH), {"n"}, (), {"cpu": 0.5}, lower_yield=False, taken_off={})
    assert (room.free["cpu"], room.headroom["cpu"]) == (cpu_milli, cpu_milli // 2)
