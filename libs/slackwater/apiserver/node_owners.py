"""To which manager each lent amount of a node's status belongs, as the API server has noted it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from slackwater.apiserver.json_parts import Json, items_in, object_in
from slackwater.apiserver.resource_names import LENT_NAMES, OWN_NAMES
from slackwater.model.quantities import whole_amount

FIELD_MANAGER: Final = "slackwater"
"""The name under which Slackwater applies fields, for all its writes."""
KUBELETS: Final = frozenset({"kubelet", "kwok", "k3s", "kubelite"})
"""Field managers of kubelets, simulated and embedded ones too. They set extended resources to 0, or to what they have
read, when they register their node again. Their amounts are taken over, others' are not."""
BEFORE_FIRST_APPLY: Final = "before-first-apply"
"""The manager of what a node had when the server began to note managers. Slackwater applies nothing that was there, so
what it shares with this manager it had applied before the notes were removed."""
STATUS_PARTS: Final = ("capacity", "allocatable")
"""The parts of a node's status that have amounts."""

Writers = Mapping[str, Mapping[str, set[tuple[str, bool]]]]
"""Of each name in each part of a status: its managers, and whether what they wrote is Slackwater's."""


def owners_of(
    item: Json,
) -> tuple[frozenset[str], tuple[tuple[str, str], ...], tuple[tuple[str, str, int], ...]]:
    """The LENT_NAMES in capacity or allocatable of the status that are Slackwater's, the others with the names of their
    managers, and what is left of Slackwater under those. A name that a node was registered with has no manager (the
    server does not track what a POST says about the status), and is another's all the same."""
    writers, status = _writers(item), object_in(item, "status")
    owned, foreign, residual = set[str](), list[tuple[str, str]](), list[tuple[str, str, int]]()
    for name in sorted(LENT_NAMES & {name for part in STATUS_PARTS for name in object_in(status, part)}):
        noted = {entry for part in STATUS_PARTS for entry in writers[part].get(name, ())}
        others = _others(noted)
        if any(is_own for _, is_own in noted) and not others:
            owned.add(name)
        elif others or all(manager == FIELD_MANAGER for manager, _ in noted):
            foreign.append((name, ", ".join(sorted(others))))
            residual += [
                (part, name, whole_amount(object_in(status, part)[name]))
                for part in STATUS_PARTS
                if any(is_own for _, is_own in writers[part].get(name, ())) and not _others(writers[part][name])
            ]
    return frozenset(owned), tuple(foreign), tuple(residual)


def _writers(item: Json) -> Writers:
    writers: dict[str, dict[str, set[tuple[str, bool]]]] = {part: {} for part in STATUS_PARTS}
    for entry in items_in(object_in(item, "metadata"), "managedFields"):
        manager, operation = str(entry.get("manager") or ""), entry.get("operation")
        is_own = (manager, operation, entry.get("subresource")) == (FIELD_MANAGER, "Apply", "status")
        is_kubelet = manager in KUBELETS and operation == "Update"
        status = object_in(object_in(entry, "fieldsV1"), "f:status")
        for part, names in writers.items():
            for name in LENT_NAMES & {field.removeprefix("f:") for field in object_in(status, f"f:{part}")}:
                names.setdefault(name, set()).add((manager, is_own or (is_kubelet and name in OWN_NAMES)))
    return writers


def _others(noted: Collection[tuple[str, bool]]) -> set[str]:
    """The managers that are neither Slackwater nor a kubelet."""
    before = (BEFORE_FIRST_APPLY,) if any(is_own for _, is_own in noted) else ()
    return {manager for manager, _ in noted} - {*KUBELETS, FIELD_MANAGER, *before}
