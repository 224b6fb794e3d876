"""A Prometheus that is small enough to read: it evaluates the few range queries over made series, label by label, and
is as strict as the real one about the form of a query, the number of points and of samples, and authentication.

Checked against Prometheus 3.16 (v0.316.0) with fifteen days of 40 pods on 6 nodes: the answers to five of the queries,
401 without credentials, 422 and its message for `--query.max-samples`, 503 with `timeout` for `--query.timeout`, 404 at
another path, an empty matrix of an empty server, and of the days before its first block.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

NAMES = re.compile(
    r"container_cpu_usage_seconds_total|container_memory_working_set_bytes|kube_node_status_allocatable"
    r"|kube_node_status_capacity|kube_pod_info|kube_pod_container_resource_requests"
    r"|kube_replicaset_owner|kube_job_owner"
)
GROUPED = re.compile(r"(?P<how>sum|max) by \((?P<labels>[a-z_, ]+)\) \((?P<inner>.*)\)(?P<scale> \* 1000)?")
RATE = re.compile(r"rate\((?P<inner>.*)\[\d+s\]\)")
SELECTED = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<wanted>[^}]*)\})?")
WANTED = re.compile(r'(?P<label>[a-z0-9_]+)(?P<sign>=~|!~|!=|=)"(?P<value>[^"]*)"')
MOST_POINTS = 11_000
TOO_MANY = "query processing would load too many samples into memory in query execution"
TIMED_OUT = "query timed out in expression evaluation"
OR = " or "
Value = Callable[[float], float | None]
"""At a time; None: no sample there."""


@dataclass(frozen=True)
class Made:
    """One series. A counter is given by its rate."""

    name: str
    labels: dict[str, str]
    value: Value


@dataclass
class SmallPrometheus:
    """What it has, what it was asked, and how it behaves."""

    series: list[Made]
    token: str = ""
    authorization: str = ""
    """What authenticates a request besides a token; empty: nothing does."""
    fails: list[tuple[int, str]] = field(default_factory=list)
    """(status, body) of the next answers."""
    warnings: list[str] = field(default_factory=list)
    most_samples: int | None = None
    """`--query.max-samples`."""
    most_points: int | None = None
    """Above it, an answer takes so long that `--query.timeout` ends it."""
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, form: dict[str, str], authorization: str) -> tuple[int, str]:
        self.asked.append(form)
        if self.fails:
            return self.fails.pop(0)
        wanted = f"Bearer {self.token}" if self.token else self.authorization
        if wanted and authorization != wanted:
            return 401, "Unauthorized"
        start, end, step = (float(form[name]) for name in ("start", "end", "step"))
        if (end - start) / step > MOST_POINTS:
            said = "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution"
            return 400, json.dumps({"status": "error", "errorType": "bad_data", "error": said})
        times = [start + number * step for number in range(int((end - start) / step) + 1)]
        try:
            result = [_told(one) for one in self._result(form["query"], times) if one[1]]
        except ValueError:
            error = {"status": "error", "errorType": "bad_data", "error": f"parse error: {form['query']}"}
            return 400, json.dumps(error)
        if self.most_points is not None and len(times) > self.most_points:
            return 503, json.dumps({"status": "error", "errorType": "timeout", "error": TIMED_OUT})
        if self.most_samples is not None and sum(len(one["values"]) for one in result) > self.most_samples:
            return 422, json.dumps({"status": "error", "errorType": "execution", "error": TOO_MANY})
        body: dict[str, Any] = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        if self.warnings:
            body["warnings"] = self.warnings
        return 200, json.dumps(body)

    def _result(self, query: str, times: Sequence[float]) -> list[Found]:
        """Raises ValueError for what it does not understand."""
        if (place := _or_of(query)) is not None:
            left, right = (self._result(part, times) for part in (query[:place], query[place + len(OR) :]))
            return _either(left, right)
        if grouped := GROUPED.fullmatch(query):
            by = [label.strip() for label in grouped["labels"].split(",")]
            return _together(self._result(grouped["inner"], times), by, grouped["how"], 1000 if grouped["scale"] else 1)
        if rate := RATE.fullmatch(query):
            return self._selected(rate["inner"], times, is_counter=True)
        return self._selected(query, times, is_counter=False)

    def _selected(self, query: str, times: Sequence[float], *, is_counter: bool) -> list[Found]:
        """A counter can be asked for nothing but its rate, anything else for no rate."""
        found = SELECTED.fullmatch(query)
        if found is None or not NAMES.fullmatch(found["name"]) or found["name"].endswith("_total") is not is_counter:
            raise ValueError(query)
        wanted = list(WANTED.finditer(found["wanted"] or ""))
        there = [one for one in self.series if one.name == found["name"] and all(_has(one, each) for each in wanted)]
        return [(one.labels, {at: value for at in times if (value := one.value(at)) is not None}) for one in there]


Found = tuple[dict[str, str], dict[float, float]]
"""Labels, and values by time."""


def _or_of(query: str) -> int | None:
    """Where `or` stands outside of parentheses."""
    depth = 0
    for place, letter in enumerate(query):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and query.startswith(OR, place):
            return place
    return None


def _either(left: Sequence[Found], right: Sequence[Found]) -> list[Found]:
    """At each moment all of the left, and of the right what has other labels."""
    there = {(tuple(sorted(labels.items())), at) for labels, values in left for at in values}
    return [
        *left,
        *(
            (labels, {at: value for at, value in values.items() if (tuple(sorted(labels.items())), at) not in there})
            for labels, values in right
        ),
    ]


def _has(one: Made, wanted: re.Match[str]) -> bool:
    value = one.labels.get(wanted["label"], "")
    if wanted["sign"] in ("=~", "!~"):
        return (re.fullmatch(wanted["value"], value) is not None) is (wanted["sign"] == "=~")
    return (value == wanted["value"]) is (wanted["sign"] == "=")


def _together(found: Sequence[Found], by: Sequence[str], how: str, scale: float) -> list[Found]:
    groups: dict[tuple[str, ...], list[dict[float, float]]] = {}
    for labels, values in found:
        groups.setdefault(tuple(labels.get(label, "") for label in by), []).append(values)
    add = sum if how == "sum" else _largest
    return [
        (
            dict(zip(by, labels, strict=True)),
            {
                at: add(values[at] for values in members if at in values) * scale
                for at in sorted({at for values in members for at in values})
            },
        )
        for labels, members in groups.items()
    ]


def _largest(values: Iterable[float]) -> float:
    """What is no number is passed over, as the real one does."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _told(found: Found) -> dict[str, Any]:
    labels, values = found
    points = [[at, "NaN" if math.isnan(value) else repr(float(value))] for at, value in values.items()]
    return {"metric": {label: value for label, value in labels.items() if value}, "values": points}


@contextmanager
def serving(small: SmallPrometheus) -> Iterator[SmallPrometheus]:
    """On a port of its own, until the context is left."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            path = urlsplit(self.path).path
            told = small.answer(form, self.headers.get("Authorization", "")) if path == PATH else (404, "not found")
            status, text = told
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    small.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield small
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


PATH = "/api/v1/query_range"


def cluster(*, nodes: int = 2, pods: int = 3, until: float = math.inf, requests: bool = True) -> list[Made]:
    """Nodes of 8 cores and 32 GiB, on each pods of one Deployment that asked for 2 cores and 8 GiB, and use a part of
    it by the time of day. Each has two containers. As cAdvisor does, it tells the same usage of the cgroups above them
    as well, and of the container that only holds the namespaces."""
    found = []

    def before(value: Callable[[float], float]) -> Value:
        return lambda at: value(at) if at < until else None

    for node in range(nodes):
        name = f"node-{node}"
        for resource, amount in (("cpu", 8.0), ("memory", 32.0 * 2**30)):
            labels = {"node": name, "resource": resource, "unit": "core"}
            found.append(Made("kube_node_status_allocatable", labels, lambda at, amount=amount: amount))
        for pod in range(pods):
            who = {"namespace": "shop", "pod": f"web-{node}-{pod}"}
            info = {**who, "node": name, "created_by_kind": "ReplicaSet", "created_by_name": f"web-{node}-5f6d8c7b9"}
            found.append(Made("kube_pod_info", info, lambda at: 1.0))
            wave, group = _wave(pod), f"/kubepods/{who['pod']}"
            for labels in (
                {"id": "/kubepods"},
                {**who, "id": group},
                {**who, "id": f"{group}/pause", "container": "POD"},
            ):
                found.append(Made("container_cpu_usage_seconds_total", labels, before(wave)))
                found.append(Made("container_memory_working_set_bytes", labels, before(_times(wave, 4 * 2**30))))
            for container, share in (("app", 0.8), ("sidecar", 0.2)):
                where = {**who, "container": container, "id": f"{group}/{container}"}
                found.append(Made("container_cpu_usage_seconds_total", where, before(_times(wave, share))))
                found.append(Made("container_memory_working_set_bytes", where, before(_times(wave, share * 4 * 2**30))))
                if requests:
                    for resource, amount in (("cpu", 2.0), ("memory", 8.0 * 2**30)):
                        labels = {**where, "resource": resource}
                        value = _constant(amount * share)
                        found.append(Made("kube_pod_container_resource_requests", labels, value))
    return found


def _wave(phase: int) -> Callable[[float], float]:
    return lambda at: 0.5 + 0.3 * math.sin(2 * math.pi * (at / 86_400 + phase / 7))


def _times(value: Callable[[float], float], factor: float) -> Callable[[float], float]:
    return lambda at: value(at) * factor


def _constant(value: float) -> Value:
    return lambda at: value
