"""Which issue is to cover the suites that no adaptor covers yet: what is left out is counted by it, never hidden."""

from __future__ import annotations

PERIODIC = "issue 4: none of the models looks for periods, so there is nothing to ask"
_COLOCATION = "not built yet: issue 5"
_OFFERS = "not built: batch resources are offered by colocation, from peaks; nothing here has this formula"
_KUBERNETES = "not built: the agent has no Kubernetes driver, so no pod's cgroup is looked for"
_ENSURANCE = "not built yet: issue 6"
_NO_ISSUE = "not built: no issue asks for it yet"

_ESTIMATES = ("dsp_", "prediction_error")
_EVICTION = ("evict_", "filter_used")
_COLLECTING = ("cpu_times", "net_rates", "container_cpu_usage", "metric_query_expr", "query_registry", "validate_probe")
_CGROUPS = ("container_id", "cgroup_", "expand_slice", "numa_allocatable")


def reason_of(schema: str, suite: str) -> str:
    """Why a suite is not covered."""
    if schema == "koord-colocation-vectors/1":
        return _COLOCATION
    if schema == "crane":
        return _of_crane(suite)
    if schema == "koordlet-qos-vectors/1" and suite.startswith(_EVICTION):
        return _ENSURANCE
    return _NO_ISSUE


def _of_crane(suite: str) -> str:
    if suite.startswith(_ESTIMATES):
        return PERIODIC
    if suite == "node_elastic_resource":
        return _OFFERS
    if suite.startswith(_CGROUPS):
        return _KUBERNETES
    return _NO_ISSUE if suite.startswith(_COLLECTING) else _ENSURANCE
