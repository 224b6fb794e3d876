"""The checkpoint of all allocations as text: JSON in the peer's shape with a version, and its checksum over the data.

The peer's kubelet keeps each allocation as protobuf bytes in a JSON string. Bytes that are no UTF-8 are replaced when
it is written, so that half of all quantities break the checksum at the next start. Here an allocation is JSON, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from slackwater.agent.domain.resource_manager.messages import Allocated, Allocation, allocation_document, allocation_of
from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text

VERSION = 1
Entries = Mapping[tuple[str, str], Allocated]
"""By uid of the pod and name of the container."""
_OFFSET, _PRIME = 0x811C9DC5, 0x01000193
_FIELDS = ("PodUID", "ContainerName", "ResourceName", "AllocationInfo")


def checkpoint_text(entries: Entries) -> str:
    """Returns the file of these allocations; equal entries give an equal text."""
    rows = [
        dict(zip(_FIELDS, (uid, container, resource, _info(allocation)), strict=True))
        for (uid, container), allocated in sorted(entries.items())
        for resource, allocation in sorted(allocated.items())
    ]
    data = {"PodResourceEntries": rows}
    return json.dumps({"Version": VERSION, "Data": data, "Checksum": checksum(rows)}, separators=(",", ":"))


def entries_of(text: str) -> dict[tuple[str, str], dict[str, Allocation]]:
    """Returns the allocations of a file. Raises InvalidInput for one that is damaged or of a later version."""
    try:
        document = parse_json_text(text)
        rows, written = document["Data"]["PodResourceEntries"], document["Checksum"]
        version = document.get("Version", VERSION)
        entries: dict[tuple[str, str], dict[str, Allocation]] = {}
        computed = checksum(rows)
        for row in rows or ():
            allocation = allocation_of(parse_json_text(row["AllocationInfo"]))
            entries.setdefault((row["PodUID"], row["ContainerName"]), {})[row["ResourceName"]] = allocation
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(f"checkpoint: is no checkpoint ({error!r})", code="checkpoint_damaged") from error
    if version != VERSION:
        raise InvalidInput(f"checkpoint: of version {version!r}, not {VERSION}", code="checkpoint_damaged")
    if computed != written:
        raise InvalidInput(f"checkpoint: checksum {written!r}, its data have {computed}", code="checkpoint_damaged")
    return entries


def checksum(rows: Iterable[Mapping[str, Any]] | None) -> int:
    """Returns the peer's checksum of the data: FNV-1a, 32 bits, of the text in which Go prints them."""
    printed = "<nil>" if rows is None else f"[{' '.join(map(_printed, rows))}]"
    value = _OFFSET
    text = f"(checkpoint.checkpointData){{PodResourceEntries:([]checkpoint.PodResourcesEntry){printed}}}"
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def _printed(row: Mapping[str, Any]) -> str:
    return "{" + " ".join(f"{name}:(string){row[name]}" for name in _FIELDS) + "}"


def _info(allocation: Allocation) -> str:
    return json.dumps(allocation_document(allocation), separators=(",", ":"))
