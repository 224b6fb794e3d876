"""gRPC: submit a job, follow it to its end, and go on after a stream that was cut."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from move_scenes import MoveScene, client_of

from slackwater.migration.domain.job_versions import changed_since, first_version, have_ended, newest_version
from slackwater.migration.domain.stored_jobs import MovedPod, StoredJob
from slackwater.migration.edge.rpc import MOST_NAMES, MigrationRpc
from slackwater.migration.service import build
from slackwater.model.errors import Conflict, InvalidInput, Unavailable
from slackwater.podmigration.documents import JobRequest
from slackwater.podmigration.jobs import MigrationJob, MigrationStep
from slackwater.v1 import migration_service_pb2 as messages


class Call:
    """What the server writes to one call."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def write(self, message: Any) -> None:
        self.written.append(message)


def wanted(name: str = "m", pod: str = "web-0", **more: Any) -> messages.SubmitRequest:
    return messages.SubmitRequest(name=name, pod_namespace="shop", pod_name=pod, **more)


async def test_a_platform_submits_a_move_and_follows_it_to_its_end() -> None:
    scene = MoveScene()
    async with scene.guarded(), scene.scene.running(build, scene.settings) as service:
        async with client_of(service) as client:
            await scene.begin(client)
        leaving = asyncio.Event()
        rpc = MigrationRpc(service.jobs, service.board, leaving)
        tried = await rpc.Submit(wanted(dry_run=True), Call())
        first = await rpc.Submit(wanted(), Call())
        again = await rpc.Submit(wanted(), Call())
        with pytest.raises(Conflict, match="for life"):
            await rpc.Submit(wanted(pod="web-1"), Call())
        assert [tried.is_new, first.is_new, again.is_new] == [True, True, False]
        assert first.job.phase == messages.MIGRATION_PHASE_PENDING
        await scene.turn(2)
        changes = rpc.changes(frozenset({"m"}), 0)
        seen = [await anext(changes)]
        await scene.turn(20)
        seen += [message async for message in changes]
        resumed = [message.job.step async for message in rpc.changes(frozenset({"m"}), seen[0].resume_version)]
        leaving.set()
        with pytest.raises(Unavailable, match="stops"):
            await followed(rpc, frozenset())
    assert seen[-1].job.phase == messages.MIGRATION_PHASE_SUCCEEDED
    assert (seen[-1].job.outcome, seen[-1].job.from_node, seen[-1].job.pod) == ("moved", "n0", "shop/web-0")
    versions = [message.resume_version for message in seen]
    assert versions == sorted(versions)
    assert seen[0].job.phase in (messages.MIGRATION_PHASE_PENDING, messages.MIGRATION_PHASE_RUNNING)
    assert resumed == ["ended"], "a stream that was cut goes on behind what was handled"


async def followed(rpc: MigrationRpc, names: frozenset[str]) -> list[Any]:
    return [message async for message in rpc.changes(names, 0)]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (wanted(name=""), "metadata.name"),
        (wanted(name="Not A Label"), "metadata.name"),
        (messages.SubmitRequest(name="m"), "spec.podRef"),
        (wanted(ttl_seconds=-1.0), "ttl_seconds"),
        (wanted(wait_limit_seconds=float("nan")), "wait_limit_seconds"),
        (wanted(mode=77), "mode"),
        (wanted(reason="x" * 2000), "spec.reason"),
        (wanted(pod="a\0b"), "spec.podRef.name"),
    ],
)
async def test_what_rest_refuses_is_refused(request_: messages.SubmitRequest, field: str) -> None:
    scene = MoveScene()
    async with scene.scene.running(build, scene.settings) as service:
        with pytest.raises(InvalidInput) as refused:
            await MigrationRpc(service.jobs, service.board, asyncio.Event()).Submit(request_, Call())
    assert refused.value.field == field


async def test_a_watch_is_bounded() -> None:
    scene = MoveScene()
    async with scene.scene.running(build, scene.settings) as service:
        rpc = MigrationRpc(service.jobs, service.board, asyncio.Event())
        for asked in ({"names": [str(n) for n in range(MOST_NAMES + 1)]}, {"resume_version": -1}):
            with pytest.raises(InvalidInput):
                await rpc.Watch(messages.MigrationServiceWatchRequest(**asked), Call())  # type: ignore[arg-type]


def job(number: int, version: int, *, ended: bool = False) -> StoredJob:
    step = MigrationStep.ENDED if ended else MigrationStep.WAITING
    name = f"j{number}"
    return StoredJob(MigrationJob(name, "u", "n", 0.0, step=step), JobRequest(name), MovedPod(), version=version)


writes = st.lists(st.dictionaries(st.integers(0, 4), st.booleans(), max_size=4), max_size=6)


@settings(max_examples=50)
@given(rounds=writes, cuts=st.lists(st.integers(0, 5), max_size=12))
def test_a_follower_whose_stream_is_cut_anywhere_comes_to_what_is_stored(
    rounds: list[dict[int, bool]], cuts: list[int]
) -> None:
    jobs: dict[str, StoredJob] = {}
    held: dict[str, int] = {}
    resume, cut = 0, iter(cuts)
    for generation, changed in enumerate(rounds, 1):
        jobs = {**jobs, **{f"j{number}": job(number, generation, ended=end) for number, end in changed.items()}}
        for change in list(changed_since(jobs, first_version(resume, generation)))[: next(cut, None)]:
            held[change.job.name], resume = change.job.version, change.resume
    last = len(rounds)
    for change in changed_since(jobs, first_version(resume, last)):
        held[change.job.name] = change.job.version
    assert held == {name: stored.version for name, stored in jobs.items()}
    assert changed_since(jobs, newest_version(jobs, last)) == []


def test_a_follower_of_a_ledger_that_was_restored_is_sent_all() -> None:
    jobs = {"j1": job(1, 3)}
    assert [each.job.name for each in changed_since(jobs, first_version(9, 3))] == ["j1"]
    assert changed_since(jobs, first_version(3, 3)) == []
    assert have_ended({"j1": job(1, 3, ended=True)}, {"j1"})
    assert not have_ended(jobs, {"j1", "j2"})
    assert not have_ended({}, set())
    assert replace(jobs["j1"], version=4) != jobs["j1"]
