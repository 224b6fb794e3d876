"""Policies and models of peaks, as `get` and `describe` print them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slackwater.cli.output import UNKNOWN, Column, Item, table

CLUSTER = "default"


def pool_of(policy: Item) -> str:
    """The pool a PredictPolicy is for, `*` for all without one."""
    name = str(policy["metadata"]["name"])
    return "*" if name == CLUSTER else str(policy["spec"].get("nodePool") or name)


def _effective(policy: Item) -> Item:
    return (policy.get("status") or {}).get("effective") or {}


def _model(policy: Item, resource: str) -> str:
    return str((_effective(policy).get(resource) or {}).get("name", UNKNOWN))


def _rate(policy: Item, resource: str) -> str:
    rate = ((_effective(policy).get(resource) or {}).get("settings") or {}).get("violation_rate")
    return UNKNOWN if rate is None else f"{rate:.3g}"


def _cadence(policy: Item, name: str) -> str:
    value = (_effective(policy).get("cadence") or {}).get(name)
    return UNKNOWN if value is None else f"{value:g}"


def _state(policy: Item) -> str:
    status = policy.get("status") or {}
    if status.get("problem"):
        return f"keeps to generation {status['observedGeneration']}" if status["observedGeneration"] else "not followed"
    return "followed"


PREDICT_POLICY = (
    Column("NAME", lambda item: str(item["metadata"]["name"])),
    Column("POOL", pool_of),
    Column("CPU", lambda item: _model(item, "cpu")),
    Column("CPU-RATE", lambda item: _rate(item, "cpu"), right=True),
    Column("MEMORY", lambda item: _model(item, "memory")),
    Column("MEMORY-RATE", lambda item: _rate(item, "memory"), right=True),
    Column("GENERATION", lambda item: str(item["metadata"]["generation"]), right=True),
    Column("STATE", _state),
    Column("FOLD", lambda item: _cadence(item, "histogramUpdateIntervalSeconds"), right=True, wide=True),
    Column("REPORT", lambda item: _cadence(item, "reportingIntervalSeconds"), right=True, wide=True),
    Column("CHECK", lambda item: _cadence(item, "checkPredictionIntervalSeconds"), right=True, wide=True),
    Column("DIFF", lambda item: _cadence(item, "resourceDiffThreshold"), right=True, wide=True),
    Column("FORCE", lambda item: _cadence(item, "forceUpdateIntervalSeconds"), right=True, wide=True),
    Column("PROTECT-LSR", lambda item: _yes(_effective(item).get("protectLSR")), wide=True),
    Column("CHANGED-BY", lambda item: str(item["metadata"].get("changedBy") or UNKNOWN), wide=True),
)
PREDICTOR = (
    Column("NAME", lambda item: str(item["name"])),
    Column("VERSION", lambda item: str(item["version"])),
    Column("RATE", lambda item: _yes(item["takes_rate"])),
    Column("PEAK", lambda item: str(item["text"])),
    Column("SETTINGS", lambda item: str(len(item["settings"])), right=True, wide=True),
    Column("FROM", lambda item: str(item["origin"]), wide=True),
)
SETTING = (
    Column("SETTING", lambda item: str(item["name"])),
    Column("DEFAULT", lambda item: str(item["default"])),
    Column("ALLOWED", lambda item: str(item["allowed"])),
    Column("MEANING", lambda item: str(item["text"])),
)


def _yes(value: bool | None) -> str:
    return {None: UNKNOWN, True: "yes", False: "no"}[value]


def policy_lines(policy: Item) -> list[str]:
    """A PredictPolicy with what it comes to: what is its own, what follows the cluster's."""
    metadata, status, effective = policy["metadata"], policy.get("status") or {}, _effective(policy)
    lines = [
        f"Name:        {metadata['name']}",
        f"Pool:        {pool_of(policy)}",
        f"Generation:  {metadata['generation']}, {_state(policy)}",
        f"Changed by:  {metadata.get('changedBy') or UNKNOWN}",
    ]
    if status.get("problem"):
        lines.append(f"Problem:     {status['problem']}")
    for resource in ("cpu", "memory"):
        lines += _model_lines(resource, effective.get(resource), _own(policy, resource))
    cadence = effective.get("cadence") or {}
    own = policy["spec"].get("cadence") or {}
    lines.append("Cadence:")
    lines += [f"  {name + ':':34}{value:<8g}{_whose(name in own)}" for name, value in cadence.items()]
    protect = policy["spec"].get("protectLSR")
    lines.append(f"Protect LSR: {_yes(effective.get('protectLSR'))} {_whose(protect is not None)}".rstrip())
    return [line.rstrip() for line in lines]


def _own(policy: Item, resource: str) -> bool:
    spec = policy["spec"]
    rate: Any = spec.get("violationRate")
    said = rate.get(resource) if isinstance(rate, dict) else rate
    return said is not None or bool((spec.get("models") or {}).get(resource))


def _model_lines(resource: str, model: Item | None, own: bool) -> Iterator[str]:
    if model is None:
        return
    yield f"{resource.upper() if resource == 'cpu' else 'Memory'}:".ljust(13) + f"{model['name']} {_whose(own)}"
    for name, value in model["settings"].items():
        yield f"  {name} = {value}"


def _whose(own: bool) -> str:
    return "" if own else "(from above)"


def predictor_lines(predictor: Item) -> list[str]:
    """A model with all that can be set."""
    return [
        f"Name:     {predictor['name']} {predictor['version']}",
        f"From:     {predictor['origin']}",
        f"Peak:     {predictor['text']}",
        f"Rate:     {'violationRate can be stated' if predictor['takes_rate'] else 'violationRate cannot be stated'}",
        "",
        *table(predictor["settings"], SETTING, wide=True, headers=bool(predictor["settings"])),
    ]
