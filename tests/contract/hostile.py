"""Bodies, values and headers that no client should send, by the families of tests/faults/mutations."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from samples import _value
from tests.faults.mutations import BROKEN_TEXTS, DEEP, HUGE_NAME, _places, put

Body = tuple[str, bytes, dict[str, str]]
VALID = b'{"a":1}'
BODIES: tuple[Body, ...] = (
    ("empty", b"", {}),
    ("not JSON", b"\xff\xfe\x00 not JSON", {}),
    ("half", b'{"a":', {}),
    ("a number", b"42", {}),
    ("null", b"null", {}),
    ("NaN", b"NaN", {}),
    ("arrays", b"[" * DEEP + b"]" * DEEP, {}),
    ("objects", b'{"a":' * DEEP + b"1" + b"}" * DEEP, {}),
    ("arrays in spec", b'{"spec":' + b"[" * DEEP + b"]" * DEEP + b"}", {}),
    ("byte order mark", b"\xef\xbb\xbf" + VALID, {}),
    ("UTF-16", VALID.decode().encode("utf-16"), {}),
    ("duplicate keys", b'{"metadata":1,"metadata":{},"spec":{},"spec":[]}', {}),
    ("5,000 digits", b'{"a":' + b"9" * 5000 + b"}", {}),
    ("huge exponent", b'{"a":1e999999999}', {}),
    ("900 kB", b'{"a":"' + b"y" * 900_000 + b'"}', {}),
    ("5 MB", b"y" * 5_000_000, {}),
    ("300,000 objects", b'{"spec":{"rules":[' + b"{}," * 300_000 + b"{}]}}", {}),
    ("20,000 objects", b'{"spec":{"rules":[' + b"{}," * 20_000 + b"{}]}}", {}),
    ("200,000 fields", b'{"spec":{' + b",".join(b'"%d":1' % number for number in range(200_000)) + b"}}", {}),
    ("1,000 fields", b'{"spec":{' + b",".join(b'"%d":1' % number for number in range(1000)) + b"}}", {}),
    ("no content type", VALID, {"content-type": ""}),
    ("another content type", VALID, {"content-type": "text/html"}),
    ("a charset that is none", VALID, {"content-type": "application/json; charset=no-such"}),
    ("UTF-16 by charset", VALID.decode().encode("utf-16"), {"content-type": "application/json; charset=utf-16"}),
    ("form", b"a=1&b=%00", {"content-type": "application/x-www-form-urlencoded"}),
    ("multipart without a boundary", b"--", {"content-type": "multipart/form-data"}),
    ("gzip", gzip.compress(VALID), {"content-encoding": "gzip"}),
    ("an encoding that is none", VALID, {"content-encoding": "no-such"}),
    ("YAML", b"a: &a [*a]\n", {"content-type": "application/yaml"}),
)
LITERALS = (
    b"null", b"true", b"{}", b"[]", b'""', b"-1", b"0", b"1.5", b"1e308", b"1e400", b"NaN", b"Infinity", b"-Infinity",
    b"9223372036854775808", b"1180591620717411303424", b"-" + b"9" * 400, b"1" + b"0" * 5000,
    b'"' + b"x" * HUGE_NAME + b'"',
    b"[" * 300 + b"]" * 300, b"[" * DEEP + b"]" * DEEP, b'{"\\ud800":1}',
    b'"10000-01-01T00:00:00Z"', b'"0001-01-01T00:00:00Z"',
    *(b'"' + text + b'"' for _, text in BROKEN_TEXTS),
)  # fmt: skip
VALUES = (
    "", "%00", "a%00b", "%ED%A0%80", "%FF", "%C0%80", "%", "%zz", "-1", "0", "1e400", "NaN", "Infinity",
    "9223372036854775807", "9223372036854775808", "1180591620717411303424", "9" * 400, "1" * 5000, "x" * 7000, "true",
    "null", "[]", "{}", "../../etc/passwd", "..%2f..%2fetc", "'; DROP TABLE nodes; --", "10000-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-01-01T00:00:00", "99999999999d", "1e308s", "*", ">",
    "a/b", "%2F", "\u202e", "\U0001f4a9", "%F4%90%80%80", "_", "\\", "%25",
)  # fmt: skip
HEADERS: tuple[bytes, ...] = (
    b"authorization: Bearer " + b"x" * 60_000,
    b"x-large: " + b"x" * 60_000,
    b"\r\n".join(b"x-%d: y" % number for number in range(300)),
    b"accept: \xff\xfe",
    b"accept: no/such\r\naccept-language: " + b"x" * 5000,
    b"traceparent: 00-" + b"z" * 5000,
    b"traceparent: \xff\xfe",
    b"if-none-match: \xed\xa0\x80",
    b"content-length: -1",
    b"content-length: 99999999999999999999",
    b"content-length: 1\r\ncontent-length: 2",
    b"transfer-encoding: no-such",
    b"transfer-encoding: chunked\r\n\r\nzz\r\n",
    b"content-type: \xff",
    b"host: somewhere.example",
    b"host: \xff",
    b"cookie: " + b"a=\xff; " * 200,
    b"authorization: Bearer \xff\xfe",
    b"authorization: Basic =====",
    b"range: bytes=0-99999999999999999999",
    b"expect: 100-continue",
    b"upgrade: websocket\r\nconnection: upgrade",
    b"upgrade: h2c\r\nhttp2-settings: \xff",
    b"x: a\x00b",
    b": no name",
    b"no colon",
)
"""Between the request line and the end of the head, as bytes."""


SPECS: Mapping[str, Mapping[str, Any]] = {
    "predictpolicies": {
        "nodePool": "text", "violationRate": 0.01, "cadence": {"checkPredictionIntervalSeconds": 10},
        "protectLSR": True,
    },
    "colocationstrategies": {
        "nodeSelector": {"matchLabels": {"role": "web"}}, "cpuReclaimThresholdPercent": 50,
        "safetyMarginMode": "reserve", "midReclaimMode": "dynamic",
    },
    "nodeqos": {
        "selector": {"matchLabels": {"disk": "ssd"}},
        "rules": [{
            "name": "memory", "metricRule": {"name": "node_memory_usage_ratio", "value": "92%", "target": "88%"},
            "avoidanceThreshold": 2, "actionName": "evict", "coolDownSeconds": 3,
        }],
    },
    "podqos": {
        "scopeSelector": {"matchExpressions": [{"scopeName": "QOSClass", "operator": "In", "values": ["BE"]}]},
        "allowedActions": ["throttle", "evict"],
    },
    "avoidanceactions": {
        "eviction": {"terminationGracePeriodSeconds": 10}, "throttle": {"minCpu": "500m"}, "disableScheduling": False,
    },
    "autonomies": {"mode": "evict", "evictionsPerHour": 20, "nodeEvictionsPerCycle": 1},
    "clustercolocationprofiles": {
        "selector": {"matchLabels": {"app": "spark"}}, "tier": "batch", "qosClass": "BE",
        "priorityClass": {"name": "slackwater-batch", "value": 5500},
    },
    "elasticquotas": {"min": {"cpu": "4"}, "max": {"cpu": 16, "memory": "32Gi"}, "queuePolicy": "StrictFIFO"},
    "quotaprofiles": {"resourcePercent": 90},
    "deschedulerprofiles": {
        "intervalSeconds": 60, "dryRun": True, "rollout": {"namespaces": ["web"], "nodePercent": 10},
        "lowNodeLoad": {"nodePools": [{"name": "all", "lowThresholds": {"cpu": 45}, "highThresholds": {"cpu": 75}}]},
    },
    "podmigrationjobs": {"podRef": {"namespace": "web", "name": "web-0"}, "mode": "ReservationFirst", "ttl": "10m"},
    "reservations": {"resources": {"cpu": "2", "memory": "4Gi"}, "owners": [{"workload": "web/web"}], "ttl": "1h"},
    "arbitrationargs": {"interval": "10s", "maxMigratingPerNode": 1, "skipEvictionGates": ["ExpectedReplicas"]},
}  # fmt: skip
"""A valid document of each kind, by the name of its routes."""
KINDS = {
    "predictpolicies": "PredictPolicy", "colocationstrategies": "ColocationStrategy", "nodeqos": "NodeQOS",
    "podqos": "PodQOS", "avoidanceactions": "AvoidanceAction", "autonomies": "Autonomy",
    "clustercolocationprofiles": "ClusterColocationProfile",
    "elasticquotas": "ElasticQuota", "quotaprofiles": "QuotaProfile",
    "deschedulerprofiles": "DeschedulerProfile",
    "podmigrationjobs": "PodMigrationJob", "reservations": "Reservation", "arbitrationargs": "ArbitrationArgs",
}  # fmt: skip
ALIKE = re.compile(rf"(?<=/v1/)(?:{'|'.join(KINDS)})(?=/)|(?<=/quarantine/)[a-z]+")
"""Parts of a path that differ between routes that the same code makes, for every kind and for every service."""


def valid_body(method: str, path: str, name: str) -> Any:
    """A body that the route accepts."""
    if path.endswith("/block"):
        return {"reason": "sends poison"}
    if path.endswith("/move-plans"):
        return {"profile": name}
    if path.endswith("/claims"):
        return {"id": name, "request": {"cpu": "1"}}
    kind = path.split("/")[2]
    document = {
        "apiVersion": "slackwater.io/v1alpha1", "kind": KINDS[kind], "metadata": {"name": name}, "spec": SPECS[kind],
    }  # fmt: skip
    return {"items": [document]} if method == "post" else document


def sample(schema: Mapping[str, Any], description: Mapping[str, Any]) -> Any:
    """A body as the description asks for it, with every field."""
    return _value(dict(schema), description["components"]["schemas"])


def hostile_bodies(document: Any, seed: int) -> Iterator[Body]:
    """The document with one literal at one place, in an order that mixes both and is the same for a seed."""
    pairs = [(place, literal) for place, _ in _places(document) for literal in LITERALS]
    random.Random(seed).shuffle(pairs)
    for place, literal in pairs:
        copy = json.loads(json.dumps(document))
        put(copy, place, "@@")
        body = json.dumps(copy).encode().replace(b'"@@"', literal)
        yield f"{'.'.join(map(str, place))} = {literal[:24]!r}", body, {}
