"""Objects of which the spec and the status are kept as JSON: custom resources, and what admits pods by profiles.

And Secrets, of which the data is kept.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from slackwater.apiserver.node_owners import FIELD_MANAGER
from slackwater.apiserver.records import WatchedKind
from slackwater.model.reading_budget import BODY, check_bytes
from slackwater.resources.kind import Kind
from slackwater.resources.names import API_VERSION

Json = Mapping[str, Any]
GROUP, VERSION = API_VERSION.split("/")


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """An object of any kind. `generation` rises with every change of its spec. `spec` and `status` are JSON texts, with
    sorted keys. `is_own`: FIELD_MANAGER has written to it."""

    key: str
    uid: str
    version: str
    generation: int
    spec: str
    status: str
    is_own: bool = False

    def read_spec(self) -> Any:
        """Raises BeyondBudget for what no service reads."""
        check_bytes(self.spec.encode(), BODY, "spec")
        return msgspec.json.decode(self.spec)

    def read_status(self) -> dict[str, Any]:
        """An empty status where there is none."""
        status = msgspec.json.decode(self.status)
        return status if isinstance(status, dict) else {}


def parse_object(item: Json) -> ObjectRecord:
    """Raises ValueError without a name."""
    metadata = item.get("metadata") or {}
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not name:
        raise ValueError("metadata.name is missing")
    return ObjectRecord(
        f"{namespace}/{name}" if namespace else str(name),
        str(metadata.get("uid") or ""),
        str(metadata.get("resourceVersion") or ""),
        int(metadata.get("generation") or 0),
        json_text(item.get("spec")),
        json_text(item.get("status")),
        any(entry.get("manager") == FIELD_MANAGER for entry in metadata.get("managedFields") or ()),
    )


def json_text(value: object) -> str:
    """JSON with sorted keys, so that equal values have equal texts."""
    return msgspec.json.encode(value, order="sorted").decode()


def document_kind(kind: Kind) -> WatchedKind[ObjectRecord]:
    """The custom resources of a kind of documents."""
    return WatchedKind(kind.name, GROUP, kind.plural, parse_object, VERSION)


QUOTAS: Final = WatchedKind("ResourceQuota", "", "resourcequotas", parse_object)
LIMIT_RANGES: Final = WatchedKind("LimitRange", "", "limitranges", parse_object)
MUTATIONS: Final = WatchedKind(
    "MutatingAdmissionPolicy", "admissionregistration.k8s.io", "mutatingadmissionpolicies", parse_object
)
MUTATION_BINDINGS: Final = WatchedKind(
    "MutatingAdmissionPolicyBinding", "admissionregistration.k8s.io", "mutatingadmissionpolicybindings", parse_object
)


def parse_webhooks(item: Json) -> ObjectRecord:
    """A configuration of webhooks: they are its spec. Raises ValueError without a name."""
    return parse_object({**item, "spec": item.get("webhooks")})


WEBHOOKS: Final = WatchedKind(
    "MutatingWebhookConfiguration", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", parse_webhooks
)


@dataclass(frozen=True, slots=True)
class SecretRecord:
    """A Secret. Values that are no text are left out."""

    key: str
    uid: str
    version: str
    data: Mapping[str, str]


def parse_secret(item: Json) -> SecretRecord:
    """Raises ValueError without a name."""
    record = parse_object(item)
    data = {}
    for name, value in (item.get("data") or {}).items():
        try:
            data[str(name)] = base64.b64decode(str(value), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            continue
    return SecretRecord(record.key, record.uid, record.version, data)


SECRETS: Final = WatchedKind("Secret", "", "secrets", parse_secret)


def secret_patch(before: SecretRecord, data: Mapping[str, str]) -> dict[str, Any]:
    """The merge patch that makes `data` all that is in a Secret, if nothing wrote it since it was read."""
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    removed = {name: None for name in before.data if name not in data}
    return {"metadata": {"resourceVersion": before.version}, "data": {**removed, **encoded}}


def has_all(present: Any, wanted: Any) -> bool:
    """Whether every field of `wanted` is in `present` with its value. The server adds defaults to objects, and sorts
    and merges nothing in lists without keys, so lists are compared item by item."""
    if isinstance(wanted, Mapping):
        return isinstance(present, Mapping) and all(
            name in present and has_all(present[name], value) for name, value in wanted.items()
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return (
            isinstance(present, Sequence)
            and len(present) == len(wanted)
            and all(has_all(one, other) for one, other in zip(present, wanted, strict=True))
        )
    return bool(present == wanted)
