"""What a hostile message or body of 1 MB costs its readers: CPU and memory, by reader and kind of attack.

Each case is read in a process of its own, forked for it, so that its peak of memory is its own. A case counts by its
bytes: milliseconds of CPU per megabyte, and bytes of memory per byte. What a reader accepts is measured, too.
"""

from __future__ import annotations

import gc
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from tests.bench.verdict import Scale, Target
from tests.support.clock import EPOCH
from tests.support.reports import described, pod_usage, report

from slackwater.bus.codec.cloudevents import Message, encode
from slackwater.bus.read.unread import UnreadSubjects
from slackwater.events.codec.body import decode_body
from slackwater.events.codec.packed import pack
from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.envelope import event_of
from slackwater.events.node_described import NodeDescribed
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput
from slackwater.resources.catalog import KINDS
from slackwater.resources.metadata import Resource
from slackwater.runtime.strict_json import parse_json
from slackwater.telemetry.metrics import Meters

MEGABYTE: Final = 1_000_000
TARGET_MILLISECONDS, TARGET_TIMES = 20.0, 10.0
Read = Callable[[bytes], object]
_PEAK: Final = re.compile(r"VmHWM:\s+(\d+)")
_RESIDENT: Final = re.compile(r"VmRSS:\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Case:
    """What one reading cost. A text of less than a megabyte counts as one: what it may cost at most is no more."""

    reader: str
    attack: str
    bytes: int
    ms_per_megabyte: float
    times_its_bytes: float
    answer: str


def values() -> Mapping[str, bytes]:
    """Values of about a megabyte, by the kind of attack; `just allowed` are as dense as the budget lets pass."""

    def many(item: bytes, size: int = MEGABYTE) -> bytes:
        return b"[" + b",".join([item] * (size // (len(item) + 1))) + b"]"

    def fields(value: bytes, number: int) -> bytes:
        return b"{" + b",".join(b'"%d":%b' % (place, value) for place in range(number)) + b"}"

    return {
        "empty objects": many(b"{}"),
        "empty lists": many(b"[]"),
        "numbers": many(b"1"),
        "texts": many(b'"a"'),
        "fields": fields(b"1", 100_000),
        "levels": b"[" * (MEGABYTE // 2) + b"]" * (MEGABYTE // 2),
        "one text": b'"' + b"[{," * (MEGABYTE // 3) + b'"',
        "escapes": b'"' + b'\\"' * (MEGABYTE // 2) + b'"',
        "objects, just allowed": many(b'{"a":"aaaaaaaaaaaaaaaaaaaa"}'),
        "lists, just allowed": many(b'["aaaaaaaaaaaaaaaaaaaaaaaa"]'),
        "texts, just allowed": many(b'"aaaaaaaaaaaaa"'),
        "fields, just allowed": fields(b"[" + b",".join([b"0"] * 60) + b"]", 1000),
    }


def cases() -> Iterator[tuple[str, str, bytes, Read]]:
    """Reader, attack, bytes, and what reads them: each list and object of every event and of every kind's spec."""
    attacks = values()
    for payload in (*EVENTS, *BROADCASTS):
        name, body_of = payload.TYPE, partial(decode_body, payload)
        yield from ((name, attack, value, body_of) for attack, value in attacks.items())
        for field in _open_fields(payload.wire().model_json_schema()):
            for attack, value in attacks.items():
                yield f"{name} {field}", attack, b'{"%b":%b}' % (field.encode(), value), body_of
    for kind in KINDS:
        document_of = partial(_document, kind.model_of())
        schema = kind.model_of().model_json_schema(by_alias=True)
        spec = schema["$defs"][schema["properties"]["spec"]["$ref"].rsplit("/", 1)[-1]]
        for field in ("", *_open_fields(spec)):
            for attack, value in attacks.items():
                inner = value if not field else b'{"%b":%b}' % (field.encode(), value)
                yield f"{kind.name} {field}".strip(), attack, b'{"spec":%b}' % inner, document_of
    for attack, value in attacks.items():
        body = json.dumps({"record": {"replay": {}}, "packed": pack(value)}).encode()
        yield "packed", attack, body, lambda body: decode_body(DecisionRecorded, body)


def measure() -> dict[str, Any]:
    """Measures every case; `worst` are the five that cost most, by CPU and by memory."""
    found = list[Case]()
    for reader, attack, body, read in cases():
        milliseconds, peak, answer = _apart(body, read)
        size = max(len(body), MEGABYTE)
        per_megabyte = round(milliseconds / size * MEGABYTE, 1)
        found.append(Case(reader, attack, len(body), per_megabyte, round(peak / size, 1), answer[:120]))
    late = _late_unknown()
    unknown = {UsageReported.TYPE: _apart(late, partial(decode_body, UsageReported))[0]}
    slowest = sorted(found, key=lambda case: -case.ms_per_megabyte)[:5]
    largest = sorted(found, key=lambda case: -case.times_its_bytes)[:5]
    return {
        "cases": len(found),
        "accepted": sum(case.answer == "accepted" for case in found),
        "slowest": list(map(asdict, slowest)),
        "largest": list(map(asdict, largest)),
        "unknown value ms": unknown,
        "start": _starts(found),
        "targets": (
            Target("a refusal", slowest[0].ms_per_megabyte, TARGET_MILLISECONDS, "ms/MB", Scale.TIME),
            Target("memory", largest[0].times_its_bytes, TARGET_TIMES, "times its bytes"),
        ),
    }


def _late_unknown() -> bytes:
    """A report of about a megabyte that is valid but for the tier of its last pod: no fast decoder takes it."""
    pods = [pod_usage(f"pod-{number:04}", labels={"app": f"web-{number}"}) for number in range(MEGABYTE // 800)]
    sent = json.loads(report("n", 1, EPOCH, pods=pods).body())
    sent["own_roster"]["pods"][-1]["tier"] = "of-a-newer-version"
    return json.dumps(sent).encode()


def _starts(found: Sequence[Case]) -> dict[str, float]:
    """Seconds of CPU that a reader of last values needs at its start for those that it cannot read, of the attack that
    costs most: STATE holds 256 MiB."""
    worst = max((case for case in found if case.reader.startswith(NodeDescribed.TYPE)), key=lambda c: c.ms_per_megabyte)
    (body,) = (body for reader, attack, body, _ in cases() if (reader, attack) == (worst.reader, worst.attack))
    headers = encode(event_of(described("n", EPOCH), source="agent/n", time=EPOCH)).headers
    seconds = {}
    for count in (100, 250):
        unread, began = UnreadSubjects(Meters(CollectorRegistry())), time.process_time()
        with capture_logs():
            for number in range(count):
                unread.decoded(NodeDescribed, Message(f"sw.v1.node.described.0.n{number}", headers, body))
        seconds[f"{count} values of a megabyte"] = round(time.process_time() - began, 2)
    return seconds


def _open_fields(schema: Mapping[str, Any]) -> list[str]:
    """The fields that take lists or objects of any number."""

    def is_open(shape: Mapping[str, Any]) -> bool:
        return (
            shape.get("type") == "array"
            or "additionalProperties" in shape
            or any(is_open(part) for part in shape.get("anyOf", ()))
        )

    return [name for name, shape in schema.get("properties", {}).items() if is_open(shape)]


def _document(model: type[Resource], body: bytes) -> object:
    return model.parse(parse_json(body))


def _apart(body: bytes, read: Read) -> tuple[float, int, str]:
    """CPU in milliseconds, bytes of memory at the peak, and the answer, of one reading in a process forked for it."""
    gc.collect()
    gc.freeze()
    source, target = os.pipe()
    child = os.fork()
    if child == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        before, began, answer = _status(_RESIDENT), time.process_time(), "accepted"
        try:
            read(body)
        except InvalidInput as error:
            answer = error.message
        except Exception as error:  # noqa: BLE001 - an HTTP refusal, or a defect that the table then names
            answer = f"{type(error).__name__}: {getattr(error, 'detail', error)}"
        spent = (time.process_time() - began) * 1000
        os.write(target, json.dumps([spent, _status(_PEAK) - before, answer[:200]]).encode())
        os._exit(0)
    os.close(target)
    with os.fdopen(source, "rb") as answers:
        said = answers.read()
    os.waitpid(child, 0)
    spent, peak, answer = json.loads(said)
    return spent, peak, answer


def _status(line: re.Pattern[str]) -> int:
    found = line.search(Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0
