"""Which issue is to cover the suites that no adaptor covers yet: what is left out is counted by it, never hidden."""

from __future__ import annotations

PERIODIC = "issue 4: none of the models looks for periods, so there is nothing to ask"
_COLOCATION = "not built yet: issue 5"
_AGENT = "not built: how a peer's agent samples and reports; ours does it another way, and no issue asks for theirs"
_SCHEDULER = "not built: a scheduler's estimate of a pod, issue 5 has no scheduler"
_ENSURANCE = "not built yet: issue 6"
_NO_ISSUE = "not built: no issue asks for it yet"

_ESTIMATES = ("dsp_", "prediction_error")
_OTHERS = {
    ("sample_percentile", "system_", "report_interval", "query_window", "agg_cold_start"): _AGENT,
    ("estimate_",): _SCHEDULER,
}
_EVICTION = ("evict_", "filter_used")


def reason_of(schema: str, suite: str) -> str:
    """Why a suite is not covered."""
    if schema == "koord-colocation-vectors/1":
        return next((reason for prefixes, reason in _OTHERS.items() if suite.startswith(prefixes)), _COLOCATION)
    if schema == "crane":
        return PERIODIC if suite.startswith(_ESTIMATES) else _ENSURANCE
    if schema == "koordlet-qos-vectors/1" and suite.startswith(_EVICTION):
        return _ENSURANCE
    return _NO_ISSUE
