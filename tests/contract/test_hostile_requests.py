"""Every REST route with bodies and parameters of the fuzzer's families: never a server error, always a problem that
says why, and afterwards every list still answers.

What is accepted is stored, and no dry run: a value that can be stored and not be read again would show in the lists.

A run sends a part of the bodies and values, another one each time; `--hypothesis-profile=thorough` sends all.
"""

from __future__ import annotations

import json
import logging
import os
import random
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest
from described import NAME, described, filled, operations
from hostile import ALIKE, BODIES, HEADERS, VALUES, hostile_bodies, sample, valid_body
from hypothesis import settings
from whole_server import ADMIN, WholeServer, server

__all__ = ["server"]

NEEDS = {"/claims": "/v1/elasticquotas/{name}", "/move-plans": "/v1/deschedulerprofiles/{name}"}
"""Documents that bodies of other routes name."""
IS_THOROUGH = settings.get_current_profile_name() == "thorough"
MOST_BODIES = 440 if IS_THOROUGH else 100
SEED = int(os.environ.get("SLACKWATER_TEST_SEED", "1"))
"""Of the bodies and values of this run; a failure shows it."""
OPERATIONS = operations()
WITH_BODY = [name for name, (_, _, operation) in OPERATIONS.items() if "requestBody" in operation]
WITH_PARAMETERS = [name for name, (_, _, operation) in OPERATIONS.items() if operation.get("parameters")]
LISTS = [path for name, (method, path, _) in OPERATIONS.items() if method == "get" and "{" not in path]


class Faults(logging.Handler):
    """Records with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(record.getMessage()[:500])


@pytest.fixture
def faults() -> Iterator[Faults]:
    handler = Faults()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


@pytest.fixture(scope="module")
def client(server: WholeServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, headers=ADMIN, trust_env=False, timeout=60) as made:
        yield made


def complaint(answer: httpx2.Response) -> str:
    """What is wrong with an answer; empty if nothing is."""
    if answer.status_code >= 500:
        return f"{answer.status_code}: {answer.text[:200]}"
    if answer.status_code < 400:
        return ""
    if answer.headers.get("content-type") != "application/problem+json":
        return f"{answer.status_code} as {answer.headers.get('content-type')}: {answer.text[:200]}"
    return "" if answer.json().get("code") else "a problem without a code"


def sent(client: httpx2.Client, method: str, url: str, **more: Any) -> str:
    """The complaint about one request; a connection that the server ends is none, if it goes on serving."""
    try:
        return complaint(client.request(method, url, **more))
    except (httpx2.RemoteProtocolError, httpx2.WriteError, httpx2.ReadError):
        return complaint(client.get("/livez"))


def judge(complaints: Sequence[str], faults: Faults) -> None:
    found = [complaint for complaint in complaints if complaint]
    assert not found, f"{len(found)} of {len(complaints)}, seed {SEED}:\n" + "\n".join(found[:20])
    assert not faults.found, faults.found[:5]


def shares() -> dict[tuple[str, str], Sequence[str]]:
    """The values of this run by operation and parameter: half of them, or a quarter for one that has the same code as
    four others or more. Those that share code share all values between them."""
    drawn = random.Random(SEED)
    seen, found = Counter[tuple[str, str]](), {}
    alike = {
        (name, parameter["name"]): (ALIKE.sub("*", name), parameter["name"])
        for name in WITH_PARAMETERS
        for parameter in OPERATIONS[name][2]["parameters"]
    }
    many = Counter(alike.values())
    first = {code: drawn.randrange(4) for code in many}
    for route, code in alike.items():
        parts = 1 if IS_THOROUGH else 4 if many[code] > 4 else 2
        found[route] = VALUES[(first[code] + seen[code]) % parts :: parts]
        seen[code] += 1
    return found


SHARES = shares()


@pytest.mark.parametrize("name", WITH_BODY)
def test_no_body_makes_a_server_error(client: httpx2.Client, faults: Faults, name: str) -> None:
    method, path, operation = OPERATIONS[name]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    url, complaints = filled(path), []
    for needed in (kind for suffix, kind in NEEDS.items() if path.endswith(suffix)):
        assert client.put(filled(needed), json=valid_body("put", needed, NAME)).status_code in (200, 201)
    present = client.get(url) if path.endswith("/default") else None
    valid = valid_body(method, path, NAME) if present is None else present.json()
    accepted = client.request(method, url, json=valid)
    assert accepted.status_code in (200, 201), accepted.text
    by_document, by_schema = hostile_bodies(valid, SEED), hostile_bodies(sample(schema, described()), SEED)
    bodies = [*BODIES, *islice(by_document, MOST_BODIES), *islice(by_schema, MOST_BODIES // 2)]
    for what, body, headers in bodies:
        said = sent(client, method, url, content=body, headers={"content-type": "application/json"} | headers)
        complaints.append(said and f"{what}: {said}")
    judge(complaints, faults)


@pytest.mark.parametrize("name", WITH_PARAMETERS)
def test_no_parameter_makes_a_server_error(client: httpx2.Client, faults: Faults, name: str) -> None:
    method, path, operation = OPERATIONS[name]
    body = {"content": b"{}", "headers": {"content-type": "application/json"}} if name in WITH_BODY else {}
    complaints = []
    for parameter in operation["parameters"]:
        for value in SHARES[name, parameter["name"]]:
            written = quote(value, safe="%")
            match parameter["in"]:
                case "path":
                    said = sent(client, method, filled(path, {parameter["name"]: written}), **body)
                case "query":
                    said = sent(client, method, f"{filled(path)}?{parameter['name']}={written}", **body)
                case _:
                    plain = value.encode("utf-8", "surrogatepass").replace(b"\0", b"").strip()[:8000]
                    more = {**body, "headers": {**body.get("headers", {}), parameter["name"]: plain}}
                    said = sent(client, method, filled(path), **more)
            complaints.append(said and f"{parameter['name']} = {value[:40]!r}: {said}")
    judge(complaints, faults)


@pytest.mark.parametrize("head", HEADERS, ids=lambda head: repr(head[:24]))
def test_no_header_makes_a_server_error(server: WholeServer, faults: Faults, head: bytes) -> None:
    """Over a plain socket: clients refuse to send most of these."""
    where = urlsplit(server.url)
    assert where.hostname is not None
    with socket.create_connection((where.hostname, where.port or 0), timeout=60) as connection:
        with suppress(OSError):  # the server may end the connection before it has everything
            connection.sendall(b"GET /v1/nodes HTTP/1.1\r\nconnection: close\r\n" + head + b"\r\n\r\n")
        status = _status(connection)
    assert not status or int(status) < 500, status
    assert not faults.found


def _status(connection: socket.socket) -> bytes:
    """Of the answer; empty if the server ended the connection without one, or waits for more."""
    connection.settimeout(2)
    try:
        parts = connection.recv(65536).split(b" ", 2)
    except (TimeoutError, ConnectionError):
        return b""
    return parts[1] if len(parts) > 1 else b""


def test_every_list_answers_after_all_that(client: httpx2.Client, faults: Faults) -> None:
    answers = {path: client.get(path) for path in LISTS}
    assert all(answer.status_code in (200, 422, 400) for answer in answers.values()), {
        path: answer.text[:200] for path, answer in answers.items() if answer.status_code != 200
    }
    judge([complaint(answer) for answer in answers.values()], faults)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name.startswith("GET /v1/")])
def test_an_unknown_parameter_is_refused_and_the_known_ones_are_named(client: httpx2.Client, name: str) -> None:
    _, path, operation = OPERATIONS[name]
    answer = client.get(f"{filled(path)}?no-such-parameter=1")
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")
    assert answer.json()["field"] == "no-such-parameter"
    known = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
    assert all(parameter in answer.json()["detail"] for parameter in known)


def test_pages_for_people_take_any_parameter(client: httpx2.Client) -> None:
    assert client.get("/?utm_source=mail").status_code == 200
    assert json.loads(client.get("/v1/openapi.json?x=1").text)
