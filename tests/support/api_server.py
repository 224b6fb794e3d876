"""An API server in memory: slackwater.apiserver.port.ApiServer, and what tests do to it.

Objects are JSON documents as the real server has them, parsed by the same functions; both servers pass
tests/kubernetes/test_api_server_port.py. Versions count writes of all kinds. `compact` makes older versions expire,
`cut` ends the watches, `down` refuses everything.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support import node_fields

from slackwater.apiserver.answers import answered
from slackwater.apiserver.cluster_events import EventSeries
from slackwater.apiserver.node_owners import FIELD_MANAGER
from slackwater.apiserver.objects import SECRETS, SecretRecord, parse_secret, secret_patch
from slackwater.apiserver.port import (
    BudgetRefused,
    EvictionRefused,
    FieldsOwned,
    KindNotServed,
    Page,
    VersionExpired,
    WatchChange,
    WatchEvent,
)
from slackwater.apiserver.records import (
    NODES,
    PODS,
    ApiRecord,
    ClusterNode,
    Taint,
    WatchedKind,
    parse_node,
    taints_json,
)
from slackwater.apiserver.resource_names import quantities
from slackwater.model.errors import Conflict, Misconfigured, NotFound, Unavailable

T = TypeVar("T", bound=ApiRecord)
Document = dict[str, Any]
RETRY_SECONDS = 10.0
"""What a refusal by a budget proposes, as the real server does."""
_WITHOUT_BUDGET = ("Pending", "Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class _LogEntry:
    version: int
    plural: str
    change: WatchChange
    document: Document | None


@dataclass(slots=True)
class MemoryApiServer:
    """The objects, and the log of their changes that watches read."""

    bookmarks: bool = True
    is_down: bool = False
    forbidden: set[str] = field(default_factory=set)
    """Plurals that may neither be listed nor watched."""
    unserved: set[str] = field(default_factory=set)
    """Plurals that this version of the server does not have."""
    patches: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Every apply that was carried out: node, and quantities by name."""
    applied: list[tuple[str, str]] = field(default_factory=list)
    """Plural (with `/status`) and key of every apply of an object."""
    cordons: int = 0
    """Writes of taints that were carried out."""
    evicted: list[str] = field(default_factory=list)
    """The uid of the pod of every eviction that was accepted and no dry run."""
    events: dict[str, EventSeries] = field(default_factory=dict)
    """The Events that were written, by name."""
    watches: int = 0
    lists: int = 0
    """Lists of more than the version."""
    _objects: dict[str, dict[str, Document]] = field(default_factory=dict)
    _log: list[_LogEntry] = field(default_factory=list)
    _version: int = 1
    _oldest: int = 0
    _uids: Any = field(default_factory=lambda: itertools.count(1))
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _cuts: int = 0

    # ------------------------------------------------------------------ the port

    @property
    def missing_rights(self) -> Sequence[str]:
        return [f"list {plural}" for plural in sorted(self.forbidden)]

    async def review_rights(self) -> None:
        """What is forbidden is the state itself."""

    @property
    def clock_skew_seconds(self) -> float | None:
        return 0.0

    async def list_page(self, kind: WatchedKind[T], limit: int, page: str = "") -> Page[T]:
        self._refuse_if_down(kind)
        self.lists += not page and limit > 1
        version, _, after = page.partition(" ") if page else (str(self._version), "", "")
        if int(version) < self._oldest:
            raise VersionExpired("the list took too long")
        items = sorted(self._at(kind.plural, int(version)).items())
        rest = [(key, document) for key, document in items if key > after]
        more = f"{version} {rest[limit - 1][0]}" if len(rest) > limit else ""
        return Page([kind.parse(document) for _, document in rest[:limit]], version, more)

    async def watch(self, kind: WatchedKind[T], version: str) -> AsyncIterator[WatchEvent[T]]:
        self._refuse_if_down(kind)
        self.watches += 1
        cuts, position = self._cuts, int(version)
        yield answered(version)
        while True:
            if position < self._oldest:
                raise VersionExpired(f"version {version} is too old")
            entries = [entry for entry in self._log if entry.version > position]
            for entry in entries:
                if cuts != self._cuts:
                    raise Unavailable("the watch was cut")
                position = entry.version
                if entry.plural == kind.plural and entry.document is not None:
                    yield WatchEvent(entry.change, str(entry.version), kind.parse(entry.document))
            if entries and self.bookmarks:
                yield WatchEvent(WatchChange.BOOKMARK, str(position), None)
            if cuts != self._cuts:
                raise Unavailable("the watch was cut")
            if kind.plural in self.unserved:
                raise KindNotServed(f"the cluster does not serve {kind.plural}")
            if position >= self._version:  # a version that is not reached yet is waited for
                changed = self._changed
                await changed.wait()

    async def apply_lent(self, node: ClusterNode, amounts: Mapping[str, int], *, force: bool) -> ClusterNode:
        withdrawn = node.to_withdraw(amounts)
        if withdrawn:
            changed = self._node_to_write(node)
            if changed["metadata"]["resourceVersion"] != node.version:
                raise Conflict(f"node {node.key} has been modified")
            for part, names in withdrawn.items():
                node_fields.update(changed, FIELD_MANAGER, part, dict.fromkeys(names))
            self._write_node(changed)
        wanted = quantities(amounts)
        if wanted:
            changed = self._node_to_write(node)
            rivals = node_fields.rivals(changed, FIELD_MANAGER, wanted)
            if rivals and not force:
                raise FieldsOwned(f"fields of node {node.key} belong to {', '.join(sorted(rivals))}", frozenset(rivals))
            node_fields.apply(changed, FIELD_MANAGER, wanted)
            self._write_node(changed)
        if wanted or withdrawn:
            self.patches.append((node.key, wanted))
        return parse_node(self._objects["nodes"][node.key])

    def _node_to_write(self, node: ClusterNode) -> Document:
        """A copy of the document. Raises NotFound, and Conflict for another uid."""
        self._refuse_if_down()
        document = self._objects.get("nodes", {}).get(node.key)
        if document is None:
            raise NotFound(f"node {node.key} does not exist")
        if document["metadata"]["uid"] != node.uid:
            raise Conflict(f"node {node.key} has another uid")
        return copy.deepcopy(document)

    def _write_node(self, changed: Document) -> None:
        """Only what differs makes a version."""
        if changed != self._objects["nodes"][changed["metadata"]["name"]]:
            self._write("nodes", changed["metadata"]["name"], changed)

    async def set_cordon(self, node: ClusterNode, cordon: Taint | None) -> ClusterNode:
        self._refuse_if_down()
        document = self._objects.get("nodes", {}).get(node.key)
        if document is None:
            raise NotFound(f"nodes {node.key} not found")
        if document["metadata"]["resourceVersion"] != node.version:
            raise Conflict(f"node {node.key} has been modified")
        changed = copy.deepcopy(document)
        spec = changed.setdefault("spec", {})
        spec.pop("taints", None)
        if taints := taints_json(node, cordon):
            spec["taints"] = taints
        self.cordons += 1
        self._write("nodes", node.key, changed)
        return parse_node(changed)

    async def evict_pod(self, pod: str, uid: str, grace_seconds: int, *, dry_run: bool) -> None:
        self._refuse_if_down()
        document = self._objects.get("pods", {}).get(pod)
        if document is None:
            raise NotFound(f"pods {pod} not found")
        metadata, spec = document["metadata"], document.get("spec", {})
        if metadata["uid"] != uid:
            raise Conflict(f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']})")
        is_free = "deletionTimestamp" in metadata or document["status"].get("phase") in _WITHOUT_BUDGET
        budgets = [] if is_free else self._budgets_of(document)
        if len(budgets) > 1:
            raise EvictionRefused("This pod has more than one PodDisruptionBudget.")
        budget = budgets[0] if budgets else None
        if budget is not None and not budget["status"].get("disruptionsAllowed"):
            raise BudgetRefused("Cannot evict pod as it would violate the pod's disruption budget.", RETRY_SECONDS)
        if dry_run:
            return
        self.evicted.append(uid)
        if budget is not None:
            changed = copy.deepcopy(budget)
            changed["status"]["disruptionsAllowed"] -= 1
            self._write("poddisruptionbudgets", _key_of(changed), changed)
        if spec.get("nodeName") and grace_seconds:
            leaving = copy.deepcopy(document)
            leaving["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": grace_seconds}
            self._write("pods", pod, leaving)
        else:
            self.delete(PODS, pod)

    async def write_event(self, series: EventSeries, instance: str, *, is_new: bool) -> None:
        self._refuse_if_down()
        if not is_new and series.name not in self.events:
            raise NotFound(f"events {series.name} not found")
        self.events[series.name] = series

    async def apply_object(self, kind: WatchedKind[T], key: str, document: Mapping[str, Any]) -> T:
        """Fields that are no longer applied stay, because tests compare only what is applied."""
        self._refuse_if_down(kind)
        known = self._objects.get(kind.plural, {}).get(key)
        metadata = {**document.get("metadata", {}), "name": key, "managedFields": [{"manager": FIELD_MANAGER}]}
        changed = _merged(known or {}, {**document, "metadata": metadata})
        if changed != known:
            self.put(kind, changed)
            self.applied.append((kind.plural, key))
        return kind.parse(self._objects[kind.plural][key])

    async def apply_status(self, kind: WatchedKind[T], key: str, uid: str, status: Mapping[str, Any]) -> T:
        self._refuse_if_down(kind)
        known = self._objects.get(kind.plural, {}).get(key)
        if known is None:
            raise NotFound(f"{kind.plural} {key} not found")
        if known["metadata"]["uid"] != uid:
            raise Conflict(f"{kind.plural} {key} has another uid")
        changed = copy.deepcopy(known)
        own = {condition["type"] for condition in status.get("conditions", ())}
        others = [one for one in known["status"].get("conditions", ()) if one["type"] not in own]
        changed["status"] = {**copy.deepcopy(dict(status)), "conditions": [*others, *status.get("conditions", ())]}
        if changed != known:
            self._write(kind.plural, key, changed)
        self.applied.append((f"{kind.plural}/status", key))
        return kind.parse(changed)

    async def serves(self, kind: WatchedKind[T]) -> bool:
        self._refuse_if_down()
        return kind.plural not in self.unserved

    async def read_object(self, kind: WatchedKind[T], key: str) -> T | None:
        self._refuse_if_down(kind)
        known = self._objects.get(kind.plural, {}).get(key)
        return None if known is None else kind.parse(known)

    async def write_secret(self, secret: SecretRecord, data: Mapping[str, str]) -> SecretRecord:
        self._refuse_if_down(SECRETS)
        known = self._objects.get(SECRETS.plural, {}).get(secret.key)
        if known is None:
            raise NotFound(f"secrets {secret.key} not found")
        if known["metadata"]["resourceVersion"] != secret.version:
            raise Conflict(f"secret {secret.key} has been modified")
        merged = {**known.get("data", {}), **secret_patch(secret, data)["data"]}
        changed = {**known, "data": {name: value for name, value in merged.items() if value is not None}}
        self._write(SECRETS.plural, secret.key, changed)
        return parse_secret(changed)

    async def delete_object(self, kind: WatchedKind[T], key: str, uid: str) -> None:
        self._refuse_if_down(kind)
        known = self._objects.get(kind.plural, {}).get(key)
        if known is None:
            return
        if known["metadata"]["uid"] != uid:
            raise Conflict(f"{kind.plural} {key} has another uid")
        self.delete(kind, key)

    def _budgets_of(self, pod: Document) -> list[Document]:
        """The budgets that select a pod by labels, which is all that tests need."""
        metadata, found = pod["metadata"], list[Document]()
        for budget in self._objects.get("poddisruptionbudgets", {}).values():
            labels, namespace = budget["spec"]["selector"]["matchLabels"], budget["metadata"]["namespace"]
            if namespace == metadata["namespace"] and labels.items() <= metadata.get("labels", {}).items():
                found.append(budget)
        return found

    # ------------------------------------------------------------------ what tests do

    def put(self, kind: WatchedKind[Any], document: Document) -> None:
        """Create an object, or write over it; its uid stays."""
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
        known = self._objects.get(kind.plural, {}).get(key)
        metadata["uid"] = known["metadata"]["uid"] if known else metadata.get("uid") or f"uid-{next(self._uids)}"
        if known and "managedFields" in known["metadata"]:
            metadata.setdefault("managedFields", known["metadata"]["managedFields"])
        document.setdefault("status", copy.deepcopy(known["status"]) if known else {})
        if kind.plural == NODES.plural and known is None:
            node_fields.note_creation(document, "kubelet")
        is_same = known is not None and known.get("spec") == document.get("spec")
        metadata["generation"] = (known["metadata"]["generation"] if known else 0) + (not is_same)
        self._write(kind.plural, key, document)

    def delete_definition(self, kind: WatchedKind[Any]) -> None:
        """Delete all objects of a kind, then serve it no longer until it is removed from `unserved`."""
        for key in list(self._objects.get(kind.plural, {})):
            self.delete(kind, key)
        self.unserved.add(kind.plural)
        self._notify()

    def delete(self, kind: WatchedKind[Any], key: str) -> None:
        document = self._objects[kind.plural].pop(key)
        self._version += 1
        last = copy.deepcopy(document)
        last["metadata"]["resourceVersion"] = str(self._version)
        self._append(kind.plural, WatchChange.DELETED, last)

    def has(self, kind: WatchedKind[Any], key: str) -> bool:
        """Whether there is an object, whatever the server answers now."""
        return key in self._objects.get(kind.plural, {})

    def document(self, kind: WatchedKind[Any], key: str) -> Document:
        """A copy of an object as stored."""
        return copy.deepcopy(self._objects[kind.plural][key])

    def register(self, node: str) -> None:
        """Create a node as a kubelet does: with labels, and with its status in the same request."""
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "example.com/gpu": "2", "ephemeral-storage": "9Gi"}
        metadata = {"name": node, "labels": {"kubernetes.io/hostname": node}}
        if node in self._objects.get("nodes", {}):
            self.delete(NODES, node)
        self.put(NODES, {"metadata": metadata, "status": {"capacity": amounts, "allocatable": amounts}})

    def write_lent(self, node: str, manager: str, amounts: Mapping[str, int | None]) -> None:
        """Write amounts to a node's status as another field manager does by an update, or remove them (None)."""
        written = optional_quantities(amounts)
        self.write_status(node, manager, dict.fromkeys(node_fields.PARTS, written))

    def write_status(self, node: str, manager: str, parts: Mapping[str, Mapping[str, str | None]]) -> None:
        """Write amounts to parts of a node's status by an update."""
        document = self.document_of_node(node)
        for part, amounts in parts.items():
            node_fields.update(document, manager, part, amounts)
        self._write("nodes", node, document)

    def remove_managers(self, node: str) -> None:
        """Remove the notes on the managers of fields, as an administrator may."""
        document = self.document_of_node(node)
        document["metadata"].pop("managedFields", None)
        self._write("nodes", node, document)

    def document_of_node(self, node: str) -> Document:
        return copy.deepcopy(self._objects["nodes"][node])

    def compact(self) -> None:
        """Forget the past: only the present version can be resumed from."""
        self._log.clear()
        self._oldest = self._version
        self._notify()

    def cut(self) -> None:
        """End every watch with an error."""
        self._cuts += 1
        self._notify()

    def snapshot(self) -> tuple[int, dict[str, dict[str, Document]]]:
        """The state for `restore`."""
        return self._version, copy.deepcopy(self._objects)

    def restore(self, snapshot: tuple[int, dict[str, dict[str, Document]]]) -> None:
        """Go back to a state, as a server whose etcd was restored: versions go back, watches end, the past is gone."""
        version, objects = snapshot
        self._version, self._objects = version, copy.deepcopy(objects)
        self._log.clear()
        self._oldest = 0
        self.cut()

    @contextmanager
    def down(self) -> Any:
        """Refuse everything while the context is open."""
        self.is_down = True
        self.cut()
        try:
            yield
        finally:
            self.is_down = False

    # ------------------------------------------------------------------

    def _write(self, plural: str, key: str, document: Document) -> None:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        self._objects.setdefault(plural, {})[key] = document
        self._append(plural, WatchChange.UPSERTED, copy.deepcopy(document))

    def _append(self, plural: str, change: WatchChange, document: Document) -> None:
        self._log.append(_LogEntry(self._version, plural, change, document))
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _at(self, plural: str, version: int) -> Mapping[str, Document]:
        """The objects at a version: the present ones, with later changes undone."""
        if version == self._version:
            return self._objects.get(plural, {})
        later = {_key_of(entry.document) for entry in self._log if entry.version > version and entry.plural == plural}
        past = {key: document for key, document in self._objects.get(plural, {}).items() if key not in later}
        for entry in self._log:
            if entry.version <= version and entry.plural == plural and _key_of(entry.document) in later:
                past.pop(_key_of(entry.document), None)
                if entry.change is WatchChange.UPSERTED and entry.document is not None:
                    past[_key_of(entry.document)] = entry.document
        return past

    def _refuse_if_down(self, kind: WatchedKind[Any] | None = None) -> None:
        if self.is_down:
            raise Unavailable("the API server does not answer")
        if kind is not None and kind.plural in self.unserved:
            raise KindNotServed(f"the cluster does not serve {kind.plural}")
        if kind is not None and kind.plural in self.forbidden:
            raise Misconfigured(f"{kind.plural} is forbidden")


def _key_of(document: Document | None) -> str:
    metadata = (document or {})["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _merged(present: Any, wanted: Any) -> Any:
    """`present` with every field of `wanted`."""
    if not isinstance(wanted, Mapping) or not isinstance(present, Mapping):
        return copy.deepcopy(wanted)
    return {**present, **{name: _merged(present.get(name), value) for name, value in wanted.items()}}


def optional_quantities(amounts: Mapping[str, int | None]) -> dict[str, str | None]:
    """Amounts as text; None stays."""
    present = quantities({name: amount for name, amount in amounts.items() if amount is not None})
    return {name: present.get(name) for name in amounts}
