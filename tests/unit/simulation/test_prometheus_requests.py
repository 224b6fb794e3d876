"""Requests to a Prometheus: paged, split where the server refuses their size, retried, and refused with advice."""

from __future__ import annotations

import tracemalloc
from urllib.parse import parse_qsl

import httpx2
import numpy as np
import pytest
from asked_prometheus import SESAME, START, asking
from hypothesis import given
from hypothesis import strategies as st
from small_prometheus import SmallPrometheus, cluster, serving

from slackwater.model.errors import Misconfigured, SlackwaterError, Unavailable
from slackwater.simulation.adapters.prometheus import MOST_POINTS, PAGE_POINTS, Prometheus, TimeRange
from slackwater.simulation.adapters.prometheus_queries import Queries

PODS = Queries().pods


@given(st.integers(0, 100_000), st.integers(1, 4000), st.integers(1, 3600), st.integers(1, 500))
def test_pages_cover_every_point_once_and_none_is_too_large(start: int, count: int, step: int, most: int) -> None:
    whole = TimeRange(start, start + (count - 1) * step, step)
    pages = list(whole.pages(most))
    points = [at for page in pages for at in range(page.start, page.end + 1, step)]
    assert points == list(range(whole.start, whole.end + 1, step))
    assert all((page.end - page.start) // step + 1 <= most for page in pages)


def test_a_long_span_is_asked_for_in_pages_that_the_server_gives(small: SmallPrometheus) -> None:
    server, _ = asking(small)
    with server.client:
        too_much = TimeRange(START, START + 15 * (MOST_POINTS + 1), 15)
        found = server.range(PODS, too_much)
    assert len(small.asked) == -(-(MOST_POINTS + 2) // PAGE_POINTS)
    assert {len(points) for points in found.values()} == {MOST_POINTS + 2}
    refused, text = small.answer({"query": PODS, "start": "0", "end": str(15 * 11_001), "step": "15"}, "")
    assert refused == 400, "the server of the test is as strict as the real one"
    assert "11,000 points" in text


def test_points_of_weeks_are_held_as_numbers(small: SmallPrometheus) -> None:
    """A pod has five series, and a week of one has 2,016 points: as objects, a thousand pods took 1.9 GB."""
    server, _ = asking(small)
    with server.client:
        server.range(PODS, TimeRange(START, START + 300, 300))
        tracemalloc.start()
        try:
            found = server.range(PODS, TimeRange(START, START + 4000 * 300, 300))
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
            small.asked.clear()
    assert held < 30 * sum(map(len, found.values()))


@pytest.mark.parametrize(("most", "points"), [(3 * 120, PAGE_POINTS), (3 * 70, 60), (3 * 12, 7)])
def test_a_server_of_few_samples_is_asked_in_smaller_pages_with_the_same_result(most: int, points: int) -> None:
    """Three series of 120 points."""
    span = TimeRange(START, START + 119 * 300, 300)
    with serving(SmallPrometheus(cluster(nodes=1))) as small:
        server, pauses = asking(small)
        with server.client:
            expected = server.range(PODS, span)
            small.most_samples = most
            found = server.range(PODS, span)
    assert found.keys() == expected.keys()
    assert all(np.array_equal(found[each].at, expected[each].at) for each in found)
    assert server.points == points
    assert pauses == []


def test_a_server_that_refuses_a_single_point_is_told_so(small: SmallPrometheus) -> None:
    small.most_samples = 2
    server, _ = asking(small)
    said = r"too many samples into memory .*; even a single point is too much; raise the server's limit"
    with server.client, pytest.raises(Misconfigured, match=said):
        server.range(PODS, TimeRange(START, START + 700 * 300, 300))
    assert len(small.asked) == 1 + int(np.log2(PAGE_POINTS))


def test_a_slow_server_is_asked_for_less_at_a_time_as_often_as_it_is_retried(small: SmallPrometheus) -> None:
    span = TimeRange(START, START + 400 * 300, 300)
    small.most_points = 70
    server, _ = asking(small, retries=2)
    with server.client:
        assert {len(points) for points in server.range(PODS, span).values()} == {401}
    assert server.points == 62
    small.most_points = 7
    hasty, _ = asking(small, retries=2)
    with hasty.client, pytest.raises(Unavailable, match=r"timeout: query timed out in .* \(62 points at a time\)"):
        hasty.range(PODS, span)


def test_a_server_that_does_not_answer_in_time_is_asked_for_less() -> None:
    asked: list[float] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        form = dict(parse_qsl(request.content.decode()))
        asked.append((float(form["end"]) - float(form["start"])) / 300 + 1)
        raise httpx2.ReadTimeout("timed out", request=request)

    with httpx2.Client(base_url="http://prometheus", transport=httpx2.MockTransport(answer)) as client:
        server = Prometheus(client, 2, pause=lambda seconds: None)
        with pytest.raises(Unavailable, match=r"timed out; 62 points at a time, --timeout gives it longer"):
            server.range(PODS, TimeRange(START, START + 700 * 300, 300))
    assert asked == [250, 125, 62]


def test_what_may_go_well_later_is_asked_for_again_with_growing_pauses(small: SmallPrometheus) -> None:
    small.fails = [(503, '{"status":"error","errorType":"unavailable","error":"starting"}'), (429, "slow down")]
    server, pauses = asking(small)
    with server.client:
        assert server.range(PODS, TimeRange(START, START + 300, 300))
    assert pauses == [0.5, 1.0]


def test_it_is_not_asked_for_ever(small: SmallPrometheus) -> None:
    small.fails = [(503, '{"status":"error","errorType":"unavailable","error":"starting"}')] * 9
    server, pauses = asking(small, retries=2)
    with server.client, pytest.raises(Unavailable, match=r"HTTP 503 unavailable: starting \(3 tries\)"):
        server.range(PODS, TimeRange(START, START + 300, 300))
    assert len(pauses) == 2


def test_a_server_that_is_not_there_is_said_after_the_tries() -> None:
    pauses: list[float] = []
    with httpx2.Client(base_url="http://127.0.0.1:9", trust_env=False) as client:
        server = Prometheus(client, 1, pause=pauses.append)
        with pytest.raises(Unavailable, match=r"no answer from http://127.0.0.1:9.*\(2 tries\)"):
            server.range(PODS, TimeRange(START, START + 300, 300))
    assert pauses == [0.5]


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (422, '{"status":"error","errorType":"execution","error":"query timed out"}', Misconfigured, "query timed out"),
        (400, '{"status":"error","errorType":"bad_data","error":"parse error"}', Misconfigured, "bad_data: parse"),
        (403, "", Misconfigured, "HTTP 403; give --bearer-token-file, https://USER:PASSWORD@HOST, or"),
        (404, "<html>nothing here</html>", Misconfigured, "check the address"),
        (200, "<html>a login page</html>", Misconfigured, "not a Prometheus answer"),
        (200, '{"status":"success","data":{"resultType":"vector","result":[]}}', Misconfigured, "no matrix"),
        (200, "[1]", Misconfigured, "not a Prometheus answer"),
        *(
            (200, f'{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}', Misconfigured, said)
            for series, said in {
                '{"metric":{"node":"a"}}': "expected series with metric and values, not .*; the query was max by",
                '{"metric":{"node":"a"},"histograms":[[1,{}]]}': "not {'metric': {'node': 'a'}, 'histograms'",
                '{"metric":{},"values":[[1767600000,"x"]]}': "series with metric and values",
                '{"values":[[1]]}': "series with metric and values",
                '"x"': "series with metric and values, not x;",
            }.items()
        ),
    ],
)
def test_what_will_not_go_well_later_is_said_at_once(
    small: SmallPrometheus, status: int, body: str, kind: type[SlackwaterError], said: str
) -> None:
    small.fails = [(status, body)]
    server, pauses = asking(small)
    with server.client, pytest.raises(kind, match=said):
        server.range(PODS, TimeRange(START, START + 300, 300))
    assert pauses == []


def test_a_token_is_sent(small: SmallPrometheus) -> None:
    small.token = SESAME
    server, _ = asking(small, token=SESAME)
    with server.client:
        assert server.range(PODS, TimeRange(START, START + 300, 300))
    for token, said in (("", "HTTP 401; give --bearer-token-file"), ("no", "401: the given credentials were refused")):
        stranger, _ = asking(small, token=token)
        with stranger.client, pytest.raises(Misconfigured, match=said):
            stranger.range(PODS, TimeRange(START, START + 300, 300))


def test_https_to_a_server_without_tls_is_said_at_once(small: SmallPrometheus) -> None:
    with httpx2.Client(base_url=small.url.replace("http:", "https:"), trust_env=False) as client:
        server = Prometheus(client, 3, pause=lambda seconds: pytest.fail("it was asked again"))
        with pytest.raises(Unavailable, match="it speaks no TLS there: give http://"):
            server.range(PODS, TimeRange(START, START + 300, 300))


def test_a_server_that_moved_is_named_without_the_secrets_of_a_login() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(302, headers={"location": "https://sso.example/login?state=s3cret"})

    said = r"HTTP 302: it moved to https://sso.example/login; check"
    client = httpx2.Client(base_url="http://prometheus", transport=httpx2.MockTransport(answer))
    with client, pytest.raises(Misconfigured, match=said) as refused:
        Prometheus(client).range(PODS, TimeRange(START, START + 300, 300))
    assert "s3cret" not in str(refused.value)
