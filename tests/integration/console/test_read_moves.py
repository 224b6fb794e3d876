"""Jobs of migration and loads of nodes in both read models."""

from __future__ import annotations

from datetime import timedelta

from tests.support.clock import EPOCH
from tests.support.story import story
from tests.support.story_moves import gain_record, moves

from slackwater.console.domain.moves import MeasuredLoad, MoveCount, MoveHold
from slackwater.console.ports import ReadModel
from slackwater.console.usecases.translate import pod_views, usage_point
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported

NOW = EPOCH + timedelta(hours=1)
JOBS = [event.data for event in moves(NOW, 0)]


async def test_the_newest_state_of_each_job_is_counted_listed_and_pruned(model: ReadModel) -> None:
    await model.save_moves(JOBS)
    await model.save_moves([JOBS[0].model_copy(update={"step": "admitted", "changed_at": EPOCH})])
    since = NOW - timedelta(seconds=450)
    assert await model.move_counts(since) == [
        MoveCount("admitted", "Running", "", 1),
        MoveCount("ended", "Aborted", "old_pod_runs", 1),
        MoveCount("ended", "Failed", "replacement_pending", 1),
        MoveCount("evicting", "Running", "", 1),
        MoveCount("replacing", "Running", "", 1),
        MoveCount("reserving", "Running", "", 1),
        MoveCount("waiting", "Pending", "", 3),
    ]
    long = "shop/speech-of-low-resource-languages"
    assert await model.move_holds(5) == [
        MoveHold("node", "edge-7", 2, 2, 2, NOW - timedelta(seconds=299)),
        MoveHold("workload_unavailable", long, 1, 1, 1, NOW - timedelta(seconds=120)),
    ]
    assert len(await model.move_holds(1)) == 1
    listed = [job.job for job in await model.moves(since, 8)]
    assert listed == [*(f"move-{number:08d}" for number in (7, 5, 6, 4, 3, 2, 1)), "by-hand"]
    await model.prune(EPOCH, NOW)
    assert {count.step for count in await model.move_counts(EPOCH)} == {
        "admitted",
        "evicting",
        "replacing",
        "reserving",
        "waiting",
    }


async def test_the_load_of_a_node_is_its_last_report_within_the_window(model: ReadModel) -> None:
    events = story(NOW)
    described = [e.data for e in events if isinstance(e.data, NodeDescribed) and e.data.facts.name != "edge-10"]
    reports = [e for e in events if isinstance(e.data, UsageReported) and e.data.node in ("edge-7", "edge-10")]
    await model.save_facts([(each.facts, each.boot_epoch, each.described_at) for each in described])
    await model.save_usage([(usage_point(event), pod_views(event.data)) for event in reports])
    at = NOW - timedelta(minutes=7, seconds=2)
    points = {p.sampled_at: p.usage for event in reports if (p := usage_point(event)).node == "edge-7"}
    last = max(sampled for sampled in points if sampled <= at)
    capacity = next(each.facts.capacity for each in described if each.facts.name == "edge-7")
    assert await model.node_loads(at, at - timedelta(seconds=60)) == [MeasuredLoad("edge-7", points[last], capacity)]
    assert await model.node_loads(last, last) == []


async def test_the_newest_measured_gain_of_each_job_is_read(model: ReadModel) -> None:
    older, newer = (gain_record("move-00000008", NOW - timedelta(seconds=ago), 0.8, 0.5, 0.25) for ago in (9, 5))
    other = gain_record("move-00000009", NOW, 0.7, 0.6, 0.2)
    records = [older.model_copy(update={"id": "a"}), newer, other]
    await model.save_decisions(records)
    ended = [job for job in JOBS if job.job in ("move-00000008", "move-00000011")]
    assert await model.gain_records(ended) == [newer]
    assert await model.gain_records([]) == []
