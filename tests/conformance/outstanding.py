"""Which issue is to cover the suites that no adaptor covers yet: what is left out is counted by it, never hidden."""

from __future__ import annotations

_COLOCATION = "not built yet: issue 5"
_OFFERS = "not built: batch resources are offered by colocation, from peaks; nothing here has this formula"
_CGROUP_NAMES = "not built: cgroups of pods are looked for by uid in every QoS class; names of others are not parsed"
_AGENT = "not built: how a peer's agent samples and reports; ours does it another way, and no issue asks for theirs"
_SCHEDULER = "not built: a scheduler's estimate of a pod, issue 5 has no scheduler"
_ENSURANCE = "not built yet: issue 6"
_QUOTA = "not built yet: issue 26"
_OF_MOVES = {
    ("node_imbalance", "removal_gain"): (
        "not built: FragmentationAware, which evens out requests of one node between resources; no issue asks for it"
    ),
    ("scale_down_rank",): (
        "not built: ScaleDownBinPack, which ranks pods of a workload that is to shrink; no issue asks for it"
    ),
}
_NO_ADAPTOR = "no adaptor: the suite is not among the vectors of this project"
_NO_ISSUE = "not built: no issue asks for it yet"

_OTHERS = {
    ("sample_percentile", "system_", "report_interval", "query_window", "agg_cold_start"): _AGENT,
    ("estimate_",): _SCHEDULER,
}
_EVICTION = ("evict_", "filter_used")
_COLLECTING = ("cpu_times", "net_rates", "container_cpu_usage", "metric_query_expr", "query_registry", "validate_probe")
_CGROUPS = ("container_id", "cgroup_", "expand_slice", "numa_allocatable")


def reason_of(schema: str, suite: str) -> str:
    """Why a suite is not covered."""
    if schema == "koord-colocation-vectors/1":
        return next((reason for prefixes, reason in _OTHERS.items() if suite.startswith(prefixes)), _COLOCATION)
    if schema == "crane":
        return _of_crane(suite)
    if schema == "koordlet-qos-vectors/1" and suite.startswith(_EVICTION):
        return _ENSURANCE
    if schema == "koord-quota-sched-vectors/1":
        return _QUOTA if suite.startswith("quota.") else _NO_ISSUE
    if schema == "qrm":
        return _NO_ADAPTOR
    if schema == "koord-descheduler-vectors/1":
        return next((reason for suites, reason in _OF_MOVES.items() if suite in suites), _NO_ADAPTOR)
    return _NO_ISSUE


def _of_crane(suite: str) -> str:
    if suite == "node_elastic_resource":
        return _OFFERS
    if suite.startswith(_CGROUPS):
        return _CGROUP_NAMES
    return _NO_ISSUE if suite.startswith(_COLLECTING) else _ENSURANCE
