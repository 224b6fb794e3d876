"""Properties of every way to choose CPUs: exactly as many, only free ones, the same again, and what each is for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machines import machine, machines

from slackwater.kernels.topology.allocate import allocate_packed
from slackwater.kernels.topology.allocate_by_cache import allocate_best_fit, allocate_in_turn
from slackwater.kernels.topology.allocate_by_policy import (
    BindPolicy,
    CpuHolder,
    CpuRequest,
    Exclusive,
    Holdings,
    allocate_by_policy,
)
from slackwater.kernels.topology.distribute import allocate_distributed
from slackwater.kernels.topology.machine import CpuMachine, UnitLevel
from slackwater.model.errors import Conflict


def by_policy(machine: CpuMachine, free: frozenset[int], request: CpuRequest) -> frozenset[int]:
    return allocate_by_policy(Holdings(machine, reserved=machine.ids - free), request)


Choice = Callable[[CpuMachine, frozenset[int], int], frozenset[int]]
WAYS: dict[str, Choice] = {
    "packed": allocate_packed,
    "spread": lambda machine, free, count: allocate_packed(machine, free, count, spread=True),
    "by cache": lambda machine, free, count: allocate_packed(machine, free, count, align_caches=True),
    "distributed": allocate_distributed,
    "distributed by core": lambda machine, free, count: allocate_distributed(machine, free, count, group=2),
    "best fit": lambda machine, free, count: allocate_best_fit(machine, free, count, align_caches=False),
    "best fit by cache": lambda machine, free, count: allocate_best_fit(machine, free, count, align_caches=True),
    "full cores": lambda machine, free, count: by_policy(machine, free, CpuRequest(count)),
    "spread by core": lambda machine, free, count: by_policy(machine, free, CpuRequest(count, BindPolicy.SPREAD)),
    "in turn": allocate_in_turn,
    "in turn from above": lambda machine, free, count: allocate_in_turn(machine, free, count, highest_first=True),
}


@st.composite
def requests(draw: st.DrawFn) -> tuple[CpuMachine, frozenset[int], int]:
    made = draw(machines())
    free = draw(st.frozensets(st.sampled_from(sorted(made.ids))))
    return made, free, draw(st.integers(0, len(free)))


@pytest.mark.parametrize("way", WAYS)
@given(request=requests())
def test_as_many_of_the_free_ones_and_the_same_again(way: str, request: tuple[CpuMachine, frozenset[int], int]) -> None:
    found = WAYS[way](*request)
    assert len(found) == request[2]
    assert found <= request[1]
    assert WAYS[way](*request) == found


@pytest.mark.parametrize("way", WAYS)
def test_more_than_are_free_are_refused(way: str) -> None:
    with pytest.raises(Conflict, match=r"5 are asked for and 4 are free") as refused:
        WAYS[way](machine(1, 1, 4, 1), frozenset(range(4)), 5)
    assert refused.value.code == "cpus_exhausted"


@given(request=requests())
def test_packed_fills_cores_before_it_opens_another(request: tuple[CpuMachine, frozenset[int], int]) -> None:
    made, free, count = request
    found = allocate_packed(made, free, count)
    whole = made.nominal_size(UnitLevel.CORE)
    opened = [found & core for core in made.units(UnitLevel.CORE).values() if core <= free and len(core) == whole]
    assert sum(0 < len(part) < whole for part in opened) <= 1, "at most one whole free core is split"


@given(machines(), st.data())
def test_containers_of_one_kind_share_no_core_while_others_are_free(made: CpuMachine, data: st.DataObject) -> None:
    cores = made.units(UnitLevel.CORE)
    held = data.draw(st.frozensets(st.sampled_from(sorted(made.ids)), max_size=3))
    taken = frozenset(cpu for core in cores.values() if core & held for cpu in core)
    untouched = len({made.by_id[cpu].core for cpu in made.ids - taken})
    if not untouched:
        return
    request = CpuRequest(data.draw(st.integers(1, untouched)), BindPolicy.SPREAD, Exclusive.CORE)
    found = allocate_by_policy(Holdings(made, (CpuHolder(held, Exclusive.CORE),)), request)
    if made.nominal_size(UnitLevel.CORE) > 1:
        assert not found & taken
        assert len({made.by_id[cpu].core for cpu in found}) == request.count, "one thread of each core"


@given(machines(), st.integers(1, 4))
def test_distributed_is_even_on_an_empty_machine(made: CpuMachine, share: int) -> None:
    nodes = made.units(UnitLevel.NUMA)
    sizes = {len(cpus) for cpus in nodes.values()}
    count = share * len(nodes)
    if len(sizes) != 1 or count > len(made.cpus):
        return
    found = allocate_distributed(made, made.ids, count)
    used = [len(found & cpus) for cpus in nodes.values() if found & cpus]
    assert max(used) - min(used) <= 1, "of the nodes that it uses, each gives as many, or one more"


def test_in_turn_each_node_gives_one_before_any_gives_two() -> None:
    made = machine(2, 2, 2, 2)
    assert allocate_in_turn(made, made.ids, 4) == {0, 2, 4, 6}
    assert allocate_in_turn(made, made.ids, 5, highest_first=True) == {9, 11, 13, 15, 14}


def test_what_is_reserved_is_not_free() -> None:
    made = machine(1, 2, 4, 2)
    reserved = allocate_in_turn(made, made.ids, 2)
    assert not allocate_packed(made, made.ids - reserved, 14) & reserved
