"""Suites that choose CPUs in qrm.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qrm_cases import machine_of
from verdicts import Adaptor, Case, Verdict, compare

from slackwater.kernels.topology.allocate import allocate_packed
from slackwater.kernels.topology.allocate_by_cache import allocate_best_fit, allocate_in_turn
from slackwater.kernels.topology.cpu_list import cpu_list_text, parse_cpu_list
from slackwater.kernels.topology.distribute import allocate_distributed
from slackwater.kernels.topology.free_cpus import FreeCpus
from slackwater.model.errors import Conflict

_EXHAUSTED = "cpus_exhausted"


def free_units(order: Callable[[FreeCpus], list[int]]) -> Adaptor:
    return lambda case: compare(order(_free(case)), case["expect"])


def sockets_and_nodes(case: Case) -> Verdict:
    free = _free(case)
    return compare([free.whole_sockets(), free.whole_numa_nodes()], [case["sockets"], case["numas"]])


def steps(case: Case) -> Verdict:
    free = _free(case)
    for cpus in case["take"]:
        free.allocate(parse_cpu_list(cpus))
    left = case["need"] - len(free.allocated)
    return compare([left <= 0, left > len(free.free)], [case["satisfied"], case["failed"]])


def packed(case: Case) -> Verdict:
    flags = {"spread": bool(case.get("spread")), "align_caches": bool(case.get("uncore"))}
    return _judged(case, lambda: allocate_packed(machine_of(case["machine"]), _available(case), case["n"], **flags))


def distributed(case: Case) -> Verdict:
    group = case.get("group", 1)
    return _judged(
        case, lambda: allocate_distributed(machine_of(case["machine"]), _available(case), case["n"], group=group)
    )


def in_turn(case: Case) -> Verdict:
    machine = machine_of(case["machine"])
    got = allocate_in_turn(machine, _available(case), case["n"], highest_first=case["reverse"])
    return compare(cpu_list_text(got), case["expect"])


def best_fit(case: Case) -> Verdict:
    """The peer's tests ask for parts of the answer; what was computed for the others is asked for as well."""
    want = case["expect"]
    try:
        got = allocate_best_fit(machine_of(case["machine"]), _available(case), case["n"], align_caches=case["l3"])
    except Conflict as error:
        return compare(error.code, _EXHAUSTED if "error" in want else want)
    whole = want.get("set", case.get("computed"))
    checks = [
        whole is None or got == parse_cpu_list(whole),
        len(got) == want.get("size", len(got)),
        parse_cpu_list(want.get("contains", "")) <= got,
        got <= parse_cpu_list(want.get("subset", cpu_list_text(got))),
        "error" not in want,
    ]
    return compare(checks, [True] * 5) if not all(checks) else Verdict("pass")


def _judged(case: Case, choose: Callable[[], frozenset[int]]) -> Verdict:
    wants_error = bool(case.get("error"))
    try:
        got = cpu_list_text(choose())
    except Conflict as error:
        return compare(error.code, _EXHAUSTED if wants_error else case["expect"])
    return compare(got, _EXHAUSTED if wants_error else cpu_list_text(parse_cpu_list(case["expect"])))


def _available(case: Case) -> frozenset[int]:
    return parse_cpu_list(case["avail"])


def _free(case: Case) -> FreeCpus:
    return FreeCpus(machine_of(case["machine"]), _available(case))


ADAPTORS: Mapping[str, Adaptor] = {
    "acc.freeSockets(sorted)": free_units(FreeCpus.whole_sockets),
    "acc.freeNUMANodes": free_units(FreeCpus.whole_numa_nodes),
    "acc.freeCores": free_units(FreeCpus.whole_cores),
    "acc.freeCPUs": free_units(lambda free: list(free.threads())),
    "acc.freeSocketsAndNUMANodes": sockets_and_nodes,
    "acc.take": steps,
    "take.packed": packed,
    "take.spread": packed,
    "take.distributed": distributed,
    "take.distributed.regressions": distributed,
    "katalyst.takeByTopology": best_fit,
    "katalyst.takeHTByNUMABalance": in_turn,
}
