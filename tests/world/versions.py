"""Two versions of the product in one world: a replica or agent may run as the version before this one.

The older version is this code with what its users are promised for a rolling change (docs/how-to/deploy.md,
deploy/upgrade/rehearse, decision 0071) taken out:

- It does not know some event types: it never publishes them, and its relay refuses rows of them.
- It keeps no history of documents and publishes none of their changes. The newer version records them at its start.
- Messages and rows of the newer version have fields that it does not know; a row that it writes lacks them again.
- Reports and answers of its agents are of an earlier state of their schemas, which only grow (tests/contract/golden):
  they lack LATER_FIELDS. Its services and agents do not see these fields in reports, documents and answers either. What
  its services write has them, because their rows are of the newer schema.

`install` changes the product's modules for good, so it belongs into the forked process of a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import text
from tests.support.postgres_twin.values import Json
from tests.world.processes import PROCESS

from slackwater.bus.codec import decoder
from slackwater.bus.connect import nats_bus
from slackwater.events import serialized
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import Event, Payload
from slackwater.events.intent_declared import IntentDeclared
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.resource_changed import ResourceChanged
from slackwater.events.serialized import Written
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.model.errors import InvalidInput
from slackwater.store import outbox, outbox_rows, resource_table
from slackwater.store.unit_of_work import PostgresUnitOfWork

NEWER_TYPES = frozenset({serialized.type_of(ResourceChanged), serialized.type_of(EffectMeasured)})
NEWER_FIELD: Mapping[str, Any] = MappingProxyType({"fieldOfTheNewerVersion": {"amount": 1}})
_OF_A_REPORT = frozenset({"intent_declared_at", "node_free_bytes", "cpu_weights", "prod_refault_bytes_per_second"})
LATER_FIELDS: Mapping[type[Payload], frozenset[str]] = MappingProxyType(
    {
        UsageReported: _OF_A_REPORT,
        WaterlineCrossed: _OF_A_REPORT,
        IntentDeclared: frozenset({"memory_throttles", "memory_protection"}),
        IntentObserved: frozenset({"memory_limits"}),
    }
)
LATER_FIELDS_OF_A_POD = frozenset({"memory_high_bytes", "original_memory_high_bytes", "reclaimable_bytes"})
UNREAD = "unread"
"""An older reader takes the limits of such a pod for read. Older agents left the pod out, which is the defect that was
mended (0045)."""
_IN_A_BODY = json.dumps(dict(NEWER_FIELD)).encode()[1:]
_OF_A_RESOURCE = frozenset({"apiVersion", "spec"})
"""Documents of operators: a field that a version does not know is refused there, and kept out of force."""


def is_older() -> bool:
    """Whether the process that runs now is of the older version."""
    process = PROCESS.get()
    return process is not None and process.is_older


def install() -> None:
    """Make the product ask, wherever two versions differ, which one runs."""
    _install_types()
    _install_documents()
    _install_fields()


def _install_types() -> None:
    payload_of, known_types, publish = serialized.payload_of, serialized.known_types, PostgresUnitOfWork.publish

    def payload_of_version(type_name: str) -> Any:
        if type_name in NEWER_TYPES and is_older():
            raise InvalidInput(f"type: {type_name!r} {serialized.UNKNOWN_TYPE}", field="type")
        return payload_of(type_name)

    async def publish_of_version(unit: PostgresUnitOfWork, event: Any) -> None:
        if not (is_older() and serialized.type_of(event.data) in NEWER_TYPES):
            await publish(unit, event)

    def known_of_version() -> list[str]:
        return [name for name in known_types() if not (is_older() and name in NEWER_TYPES)]

    _set(outbox_rows, "payload_of", payload_of_version)
    _set(outbox, "known_types", known_of_version)
    _set(PostgresUnitOfWork, "publish", publish_of_version)


def _install_documents() -> None:
    transaction_of = resource_table._Transaction
    save, record_missing = transaction_of.save, transaction_of.record_missing

    async def save_of_version(transaction: Any, row: Any) -> None:
        if is_older():
            transaction._statements = _without_history(transaction._kind)
        await save(transaction, row)

    async def record_missing_of_version(transaction: Any) -> int:
        return 0 if is_older() else await record_missing(transaction)

    _set(transaction_of, "save", save_of_version)
    _set(transaction_of, "record_missing", record_missing_of_version)


def _without_history(kind: Any) -> Any:
    recorded = resource_table._recorded
    _set(resource_table, "_recorded", _plain)
    try:
        return resource_table._statements(kind)
    finally:
        _set(resource_table, "_recorded", recorded)


def _plain(change: str) -> Any:
    """The statement that changes a row and records nothing."""
    return text(f"WITH saved AS ({change}) SELECT {resource_table._CHANGED_AT} AS changed_at FROM saved")  # noqa: S608


def _install_fields() -> None:
    names = vars(decoder)
    decode_on, decode_body, copy = names["decode_on"], names["decode_body"], Json.copy
    written: Callable[..., Written] = vars(nats_bus)["written"]

    def decode_on_version(subject: str, payload: Any, headers: Any, body: bytes, **options: Any) -> Any:
        return decode_on(subject, payload, headers, _as_from_newer(payload, body), **options)

    def decode_body_version(payload: Any, body: bytes, **options: Any) -> Any:
        return decode_body(payload, _as_from_newer(payload, body), **options)

    def written_by_version(event: Event[Any], body: str | None = None) -> Written:
        made = written(event, body)
        if not (is_older() and type(event.data) in LATER_FIELDS):
            return made
        return replace(made, body=_of_earlier_schema(type(event.data), made.body, LATER_FIELDS_OF_A_POD))

    def copy_of_version(value: Json) -> Any:
        content = copy(value)
        if is_older() and isinstance(content, dict) and not content.keys() & _OF_A_RESOURCE:
            content.update(NEWER_FIELD)
        return content

    _set(nats_bus, "written", written_by_version)
    _set(decoder, "decode_on", decode_on_version)
    _set(decoder, "decode_body", decode_body_version)
    _set(Json, "copy", copy_of_version)


def _as_from_newer(payload: Any, body: bytes) -> bytes:
    """A body as the older version sees it, if that reads it: without the fields that its schema lacks, and with one
    that it does not know."""
    if not (is_older() and body.startswith(b'{"') and body.endswith(b"}")):
        return body
    if payload in LATER_FIELDS:
        with suppress(ValueError):  # a hostile body stays as it is
            body = _of_earlier_schema(payload, body.decode(), LATER_FIELDS_OF_A_POD | {UNREAD}).encode()
    return body[:-1] + b"," + _IN_A_BODY


def _of_earlier_schema(payload: type[Payload], body: str, of_a_pod: frozenset[str]) -> str:
    """The body without later fields. Raises ValueError for one that is no JSON."""
    content = json.loads(body)
    for name in LATER_FIELDS[payload]:
        content.pop(name, None)
    for name in of_a_pod & content.get("pods", {}).keys():
        del content["pods"][name]
    return json.dumps(content)


def _set(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)
