"""`GET /v1/stream` with any parameters: an open stream, or a problem that names the parameter.

schemathesis leaves it out, because it never ends by itself; here each answer is read as far as its opening.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from described import described
from hypothesis import HealthCheck, example, given
from hypothesis import settings as limits
from hypothesis import strategies as st
from whole_server import ADMIN, SHARES_RANDOM, WholeServer, server

from slackwater.bus.admin.streams import load
from slackwater.events.registry import EVENTS

pytestmark = SHARES_RANDOM

__all__ = ["server"]

EXAMPLES = int(os.environ.get("SLACKWATER_SCHEMATHESIS_EXAMPLES", "40"))
TYPES = [payload.TYPE for payload in EVENTS]
DESCRIBED = described()["paths"]["/v1/stream"]["get"]["responses"]

words = st.text(max_size=30)
patterns = st.text("abz*?[]!-.,/ \x00=%>\u00e4", max_size=12)
types = st.lists(st.sampled_from([*TYPES, "*", "decision.*", "usage.*"]) | words | patterns, max_size=4)
names = st.sampled_from(["edge-7", "a", "a/b", "a/", "/", ">", "*", "a.b", " "])
nodes = st.lists(names | words | patterns, max_size=6)
moments = words | st.sampled_from(["15m", "0s", "-1h", "1e9d", "99999999999d", "0001-01-01T00:00:00Z", "9999-12-31"])
places = st.lists(
    st.tuples(
        st.sampled_from([*load().streams, "NONE", "USAGE ", "decisions"]),
        st.integers(-1, 10**19) | st.sampled_from([0, 1, 2**63 - 1, 2**63, 2**64, 10**19]),
    ).map(lambda one: f"{one[0]}:{one[1]}"),
    max_size=4,
).map(",".join)
ids = places | words
brief = st.sampled_from(["true", "false", "1", "maybe", ""]) | words


def latin(text: str) -> bytes:
    """As a header can carry it: no line breaks, no NUL."""
    return text.encode("utf-8").replace(b"\r", b"").replace(b"\n", b"").replace(b"\x00", b"").strip()


def opened(url: str, query: list[tuple[str, str]], last_event_id: str | None) -> tuple[int, str, dict[str, Any] | str]:
    """Status, content type, and the opening of the stream or the problem."""
    headers: list[tuple[bytes, bytes]] = [(key.encode(), value.encode()) for key, value in ADMIN.items()]
    if last_event_id is not None:
        headers.append((b"last-event-id", latin(last_event_id)))
    with (
        httpx2.Client(trust_env=False, timeout=60) as client,
        client.stream("GET", f"{url}/v1/stream?{urlencode(query)}", headers=headers) as answer,
    ):
        kind = answer.headers.get("content-type", "")
        if answer.status_code != 200:
            answer.read()
            return answer.status_code, kind, answer.json()
        return 200, kind, next(answer.iter_text())


def check(url: str, query: list[tuple[str, str]], last_event_id: str | None) -> dict[str, Any] | str:
    status, kind, answer = opened(url, query, last_event_id)
    assert {str(status), f"{status // 100}XX"} & DESCRIBED.keys(), (status, answer)
    assert status < 500, answer
    if isinstance(answer, str):
        assert kind.startswith("text/event-stream")
        assert answer.startswith("retry: 2000\nid: ")
    else:
        assert kind.startswith("application/problem+json")
        assert answer["code"]
        assert answer["detail"]
    return answer


def test_whatever_is_asked_is_answered_with_a_stream_or_a_problem(server: WholeServer) -> None:
    @given(types, nodes, st.none() | moments, st.none() | ids, st.none() | ids, st.none() | brief)
    @example(["*", "usage.reported"], ["a", "a/b", "a/"], None, None, None, None)
    @example([], [">"], None, None, None, "true")
    @example([], [], "0001-01-01T00:00:00Z", None, None, None)
    @example([], [], None, f"DECISIONS:{2**63}", None, None)
    @limits(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="SLACKWATER_SCHEMATHESIS_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def every(
        types: list[str], nodes: list[str], since: str | None, after: str | None, last: str | None, brief: str | None
    ) -> None:
        query = [("types", one) for one in types] + [("node", one) for one in nodes]
        single = {"since": since, "after": after, "brief": brief}
        query += [(name, value) for name, value in single.items() if value is not None]
        check(server.url, query, last)

    every()


@pytest.mark.parametrize(
    ("query", "last_event_id", "code"),
    [
        ([("types", "decision.made")], None, "unknown_event_type"),
        ([("types", ",".join(f"t{n}" for n in range(51)))], None, "invalid_input"),
        ([("node", ",".join(f"n{n}" for n in range(51)))], None, "invalid_input"),
        ([("after", "DECISIONS")], None, "invalid_position"),
        ([("after", "DECISIONS:-1")], None, "invalid_position"),
        ([], "one, two", "invalid_position"),
        ([("since", "yesterday")], None, "invalid_time"),
        ([("brief", "maybe")], None, "invalid_input"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(
    server: WholeServer, query: list[tuple[str, str]], last_event_id: str | None, code: str
) -> None:
    answer = check(server.url, query, last_event_id)
    assert isinstance(answer, dict)
    assert answer["status"] in (400, 422)
    assert answer["code"] == code


def test_impossible_names_do_not_suppress_events_of_possible_ones(server: WholeServer) -> None:
    """An odd name must not make a request to the broker that it refuses."""

    @given(st.lists(names | words | patterns | st.just("n" * 400), max_size=20))
    @example(["edge-7/ensurance", "edge-7/"])
    @example(["a", "a/b"])
    @example(["/"])
    @example(["edge-7", " edge-7", "edge-7,"])
    @limits(
        max_examples=EXAMPLES // 2,
        deadline=None,
        derandomize="SLACKWATER_SCHEMATHESIS_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def every(odd: list[str]) -> None:
        odd = [name.replace("\x00", "") for name in odd]  # that one is refused by all of the API
        query = [*(("node", name) for name in odd), ("node", "edge-7"), ("types", "*"), ("since", "24h")]
        with (
            httpx2.Client(trust_env=False, timeout=60) as client,
            client.stream("GET", f"{server.url}/v1/stream?{urlencode(query)}", headers=ADMIN) as answer,
        ):
            found = next(line for line in answer.iter_lines() if line.startswith("event: ") or "alive" in line)
            assert found.startswith("event: "), "nothing but a heartbeat"

    every()
