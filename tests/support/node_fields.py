"""Field managers of capacity and allocatable in a node's status, as the real API server keeps them (measured at 1.37).

A POST may bring a status, and its fields get no manager. Managers are noted from the first apply on, or from the
creation if it brings labels. An update takes over what it changes. An apply takes away what its manager applied before
and no longer does, and with the last field that any manager owns of a map the whole map.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Set
from typing import Any, Final

from slackwater.apiserver.node_owners import BEFORE_FIRST_APPLY

Document = dict[str, Any]
Amounts = Mapping[str, str]
PARTS: Final = ("allocatable", "capacity")
Writer = tuple[str, str]
"""A manager and its operation."""


def note_creation(document: Document, manager: str) -> None:
    """The notes on a node that was posted with labels; without them there are none."""
    if labels := document["metadata"].get("labels"):
        fields: Document = {"f:metadata": {"f:labels": {f"f:{name}": {} for name in labels}}}
        entry = {"manager": manager, "operation": "Update", "fieldsV1": fields}
        document["metadata"].setdefault("managedFields", [entry])


def update(document: Document, manager: str, part: str, amounts: Mapping[str, str | None]) -> None:
    """Set amounts of a part of the status, or remove them (None), as an update of a manager does."""
    status = document["status"].setdefault(part, {})
    changed = {name for name, amount in amounts.items() if status.get(name) != amount}
    for name, amount in amounts.items():
        if amount is None:
            status.pop(name, None)
        else:
            status[name] = amount
    if not status:
        del document["status"][part]
    if not document["metadata"].get("managedFields"):
        return
    owners = {writer: names - changed for writer, names in _owners(document, part).items()}
    own = changed - {name for name, amount in amounts.items() if amount is None}
    owners[manager, "Update"] = owners.get((manager, "Update"), set()) | own
    _note(document, part, owners)


def rivals(document: Document, manager: str, amounts: Amounts) -> Set[str]:
    """The managers of other values for what a manager wants to apply."""
    document = copy.deepcopy(document)
    _begin_notes(document)
    return {
        other
        for part in PARTS
        for (other, _), names in _owners(document, part).items()
        for name in names & amounts.keys()
        if other != manager and document["status"].get(part, {}).get(name) != amounts[name]
    }


def apply(document: Document, manager: str, amounts: Amounts) -> None:
    """Make amounts all that a manager applies to both parts of the status."""
    _begin_notes(document)
    for part in PARTS:
        status = document["status"].setdefault(part, {})
        owners, own = _owners(document, part), (manager, "Apply")
        before = owners.get(own, set())
        changed = {name for name in amounts if status.get(name) != amounts[name]}
        owners = {writer: names - changed for writer, names in owners.items()} | {own: set(amounts)}
        kept = {name for names in owners.values() for name in names}
        status.update(amounts)
        rest = {name: amount for name, amount in status.items() if name in kept or name not in before}
        document["status"][part] = rest if not before or kept & status.keys() else {}
        if not document["status"][part]:
            del document["status"][part]
        _note(document, part, owners)


def _begin_notes(document: Document) -> None:
    """Until the first apply nothing may have been noted: one manager stands for what was there."""
    if not document["metadata"].get("managedFields"):
        fields: Document = {
            f"f:{part}": {f"f:{name}": {} for name in document["status"].get(part, {})}
            for part in PARTS
            if part in document["status"]
        }
        entry = {"manager": BEFORE_FIRST_APPLY, "operation": "Update", "fieldsV1": {"f:status": fields}}
        document["metadata"]["managedFields"] = [entry]


def _owners(document: Document, part: str) -> dict[Writer, set[str]]:
    found: dict[Writer, set[str]] = {}
    for entry in document["metadata"].get("managedFields", ()):
        names = entry["fieldsV1"].get("f:status", {}).get(f"f:{part}", {})
        found[entry["manager"], entry["operation"]] = {name.removeprefix("f:") for name in names}
    return found


def _note(document: Document, part: str, owners: Mapping[Writer, Set[str]]) -> None:
    entries = {(one["manager"], one["operation"]): one for one in document["metadata"].get("managedFields", ())}
    for writer, names in owners.items():
        entry = entries.setdefault(
            writer, {"manager": writer[0], "operation": writer[1], "subresource": "status", "fieldsV1": {}}
        )
        status = entry["fieldsV1"].setdefault("f:status", {})
        status[f"f:{part}"] = {f"f:{name}": {} for name in sorted(names)}
        entry["fieldsV1"]["f:status"] = {field: noted for field, noted in status.items() if noted}
    document["metadata"]["managedFields"] = [
        entry
        for writer, entry in sorted(entries.items())
        if entry["fieldsV1"].get("f:status") or len(entry["fieldsV1"]) > 1 or writer[0] == BEFORE_FIRST_APPLY
    ]
