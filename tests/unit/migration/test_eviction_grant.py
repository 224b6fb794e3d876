"""Requests for a grant that are answered late: repeated under one id until an answer counts, and used once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.migration.domain.eviction_grant import CHANGED_S, asks, request_grants, with_answer
from slackwater.migration.domain.sightings import SeenCluster
from slackwater.migration.domain.stored_jobs import EvictionGrant, GrantAnswer, MovedPod, StoredJob
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationStep

POOLS: Mapping[str, str] = {"n0": "default"}
GRANTED_S = 120.0


def admitted(name: str, grant: EvictionGrant = EvictionGrant()) -> StoredJob:  # noqa: B008  # immutable
    job = MigrationJob(f"{name}-1", f"pod-of-{name}", "n0", 0.0, step=MigrationStep.ADMITTED)
    return StoredJob(job, JobRequest(name, 1, pod_uid=job.pod), MovedPod(job.pod), grant=grant)


def test_a_request_without_an_answer_is_repeated_under_its_id_and_ever_more_rarely() -> None:
    jobs, asked = {"a": admitted("a")}, []
    for now_s in range(201):
        jobs, requests = request_grants(jobs, ["a"], POOLS, f"ask-{now_s}", float(now_s))
        asked += [(now_s, request.request, request.pools) for request in requests]
    pools = (("a-1", "default"),)
    assert asked == [(at, "ask-0", pools) for at in (0, 10, 20, 40, 80, 140, 200)]


def test_a_late_answer_to_a_repeated_request_counts_and_a_lapsed_one_is_asked_for_anew() -> None:
    stored = admitted("a", EvictionGrant("ask-0", 40.0, since_s=0.0))
    seen = SeenCluster(grants={"ask-0": GrantAnswer("ask-0", ("a-1",), "", None, 45.0 + GRANTED_S)})
    granted = with_answer(stored, seen)
    assert granted.grant.is_usable(46.0)
    assert not asks(granted, 46.0)
    _, requests = request_grants({"a": granted}, ["a"], POOLS, "ask-9", 45.0 + GRANTED_S)
    assert [request.request for request in requests] == ["ask-9"]


def test_a_new_job_asks_under_an_id_of_its_own_beside_a_repeat() -> None:
    jobs = {"a": admitted("a", EvictionGrant("ask-0", 0.0, since_s=0.0)), "b": admitted("b")}
    after, requests = request_grants(jobs, ["a", "b"], POOLS, "ask-9", 10.0)
    assert {request.request: request.pools for request in requests} == {
        "ask-0": (("a-1", "default"),),
        "ask-9": (("b-1", "default"),),
    }
    assert [after[name].grant.since_s for name in ("a", "b")] == [0.0, 10.0]


def test_a_request_that_an_earlier_version_made_is_repeated_too() -> None:
    jobs, requests = request_grants({"a": admitted("a", EvictionGrant("ask-0", 100.0))}, ["a"], POOLS, "ask-9", 110.0)
    assert [request.request for request in requests] == ["ask-0"]
    assert jobs["a"].grant == EvictionGrant("ask-0", 110.0)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=5),
    st.integers(1, 20),
    st.lists(st.booleans(), min_size=5, max_size=5),
)
def test_each_job_begins_with_the_first_answer_however_slow_the_answers_are(
    begins_s: list[int], takes_s: int, is_lost: list[bool]
) -> None:
    """The asked side answers one request after the other, each in `takes_s`; the first ones may be lost."""
    jobs = {f"j{number}": admitted(f"j{number}") for number in range(len(begins_s))}
    arrives_s = {f"j{number}": at for number, at in enumerate(begins_s)}
    backlog, free_s, said = list[tuple[str, tuple[str, ...]]](), 0, dict[str, GrantAnswer]()
    lost, begun, ids = list(is_lost), dict[str, int](), dict[str, set[str]]()
    for now_s in range(600):
        if backlog and now_s >= free_s:
            request, granted = backlog.pop(0)
            said.setdefault(request, GrantAnswer(request, granted, "", None, now_s + GRANTED_S))
            free_s = now_s + takes_s
        jobs = {name: with_answer(stored, SeenCluster(grants=said)) for name, stored in jobs.items()}
        ready = [name for name, at in arrives_s.items() if at <= now_s and name not in begun]
        jobs, requests = request_grants(jobs, ready, POOLS, f"ask-{now_s}", float(now_s))
        for asked in requests:
            if not (lost and lost.pop(0)):
                backlog.append((asked.request, tuple(job for job, _ in asked.pools)))
        for name in ready:
            ids.setdefault(name, set()).add(jobs[name].grant.request)
            if jobs[name].grant.is_usable(now_s):
                begun[name] = now_s
                started = replace(jobs[name].job, step=MigrationStep.RESERVING)
                jobs[name] = replace(jobs[name], job=started)
    assert begun.keys() == arrives_s.keys()
    assert all(len(requests) == 1 for requests in ids.values()), "a request was given up before its answer"
    backlog_s = takes_s * 5 * len(begins_s)
    assert all(begun[name] - at <= 5 * CHANGED_S + backlog_s for name, at in arrives_s.items())
