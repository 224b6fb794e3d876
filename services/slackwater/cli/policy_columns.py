"""PredictPolicies and peak models, as `get` and `describe` print them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slackwater.cli.output import UNKNOWN, Item, TableColumn, table
from slackwater.resources.kinds.predict_policy import pool_of, state


def _effective(policy: Item) -> Item:
    return (policy.get("status") or {}).get("effective") or {}


PREDICTOR = (
    TableColumn("NAME", lambda item: str(item["name"])),
    TableColumn("VERSION", lambda item: str(item["version"])),
    TableColumn("RATE", lambda item: _yes(item["takes_rate"])),
    TableColumn("PEAK", lambda item: str(item["text"])),
    TableColumn("SETTINGS", lambda item: str(len(item["settings"])), right=True, wide=True),
    TableColumn("FROM", lambda item: str(item["origin"]), wide=True),
)
SETTING = (
    TableColumn("SETTING", lambda item: str(item["name"])),
    TableColumn("DEFAULT", lambda item: str(item["default"])),
    TableColumn("ALLOWED", lambda item: str(item["allowed"])),
    TableColumn("MEANING", lambda item: str(item["text"])),
)


def _yes(value: bool | None) -> str:
    return {None: UNKNOWN, True: "yes", False: "no"}[value]


def policy_lines(policy: Item) -> list[str]:
    """A PredictPolicy with its effective values: its own ones and those inherited from the cluster's."""
    metadata, status, effective = policy["metadata"], policy.get("status") or {}, _effective(policy)
    lines = [
        f"Name:        {metadata['name']}",
        f"Pool:        {pool_of(policy)}",
        f"Generation:  {metadata['generation']}, {state(policy)}",
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
    configured = rate.get(resource) if isinstance(rate, dict) else rate
    return configured is not None or bool((spec.get("models") or {}).get(resource))


def _model_lines(resource: str, model: Item | None, own: bool) -> Iterator[str]:
    if model is None:
        return
    yield f"{resource.upper() if resource == 'cpu' else 'Memory'}:".ljust(13) + f"{model['name']} {_whose(own)}"
    for name, value in model["settings"].items():
        yield f"  {name} = {value}"


def _whose(own: bool) -> str:
    return "" if own else "(from above)"


def predictor_lines(predictor: Item) -> list[str]:
    """A model with all its settings."""
    return [
        f"Name:     {predictor['name']} {predictor['version']}",
        f"From:     {predictor['origin']}",
        f"Peak:     {predictor['text']}",
        f"Rate:     {'violationRate can be stated' if predictor['takes_rate'] else 'violationRate cannot be stated'}",
        "",
        *table(predictor["settings"], SETTING, wide=True, headers=bool(predictor["settings"])),
    ]
