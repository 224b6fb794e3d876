"""Machines of all shapes for the tests of topology."""

from __future__ import annotations

from hypothesis import strategies as st

from slackwater.kernels.topology.machine import Cpu, CpuMachine


def machine(sockets: int, nodes: int, cores: int, threads: int, caches: int = 1) -> CpuMachine:
    """`nodes` of each socket with `cores` of each, whose threads are numbered as on x86: siblings are half a machine
    apart. `caches` of each node.
    """
    total = sockets * nodes * cores
    return CpuMachine(
        tuple(
            Cpu(
                id=core + thread * total,
                core=core,
                cache=core // cores * caches + core % cores * caches // cores,
                numa=core // cores,
                socket=core // cores // nodes,
            )
            for thread in range(threads)
            for core in range(total)
        )
    )


@st.composite
def machines(draw: st.DrawFn) -> CpuMachine:
    whole = machine(
        draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 2)), 2
    )
    gone = draw(st.sets(st.sampled_from(sorted(whole.ids)), max_size=2))
    left = whole.without(gone)
    return left if left.cpus else whole
