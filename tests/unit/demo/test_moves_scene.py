"""The scene moves says what its turns carry: how long a client had no answer, and what was promised and not seen."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.demo.programs.moved_service import instance_of
from slackwater.demo.scenes.moves import MOVES, longest_silence, mixed_answers
from slackwater.demo.scenes.moves_result import MovesScene, MoveStep, MoveTurn

GOOD = MoveTurn(
    variant="moved",
    job="shop-to-b",
    from_node="a",
    to_node="b",
    phase="Succeeded",
    outcome="moved",
    steps=(MoveStep(step="evicting", seconds=2.0), MoveStep(step="ended", seconds=4.5)),
    downtime_seconds=1.25,
    silent_seconds=1.31,
    requests=300,
    failed=40,
    answers_from="b",
)


def scene(turn: MoveTurn, **facts: object) -> MovesScene:
    return MovesScene(workload="shop", digest="5a1f", turns=(turn,), **facts)  # type: ignore[arg-type]


def test_a_move_that_was_seen_has_a_row_and_its_downtime_in_words() -> None:
    report = MOVES.judged(scene(GOOD))
    assert report.rows == (("a", "b", "2.00", "4.50", "1.25", "1.31", "300", "40", "b"),)
    assert len(report.rows[0]) == len(report.columns)
    assert report.sentences == (
        "moves: 1 of 1 move ended with the service on the other node",
        "moves: downtime 1.25 s by the agents' answers; a client that asks all the time had no answer for 1.31 s",
    )
    assert (report.failures, report.not_measurable) == ((), ())


def test_what_was_promised_and_not_seen_is_a_failure() -> None:
    def failures(**facts: object) -> tuple[str, ...]:
        return MOVES.judged(scene(GOOD.model_copy(update=facts))).failures

    returned = {"phase": "Failed", "outcome": "returned", "message": "the start on b failed: exit code 1"}
    assert failures(**returned) == ("moves, a to b: the job is Failed, returned: the start on b failed: exit code 1",)
    assert failures(answers_from="a") == ("moves, a to b: the job succeeded, and a answers",)
    assert failures(downtime_seconds=None) == ("moves, a to b: the job shows no downtime",)
    assert failures(mixed=2) == ("moves, a to b: 2 answers of the old pod after the first one of the new pod",)
    assert MOVES.judged(scene(GOOD, left=("cgroup /x",))).failures == ("moves: left behind: cgroup /x",)


def test_a_machine_without_room_is_not_measured() -> None:
    full = {"phase": "Failed", "outcome": "old_pod_runs", "reason": "Unschedulable", "answers_from": "a"}
    report = MOVES.judged(scene(GOOD.model_copy(update={**full, "message": "0 of 2 nodes take it: 1 headroom"})))
    assert report.failures == ()
    assert len(report.not_measurable) == 1
    assert MOVES.judged(scene(GOOD.model_copy(update={**full, "message": "1 labels-or-taints"}))).failures


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["old", "new", ""]), max_size=20))
def test_a_silence_lies_between_two_answers_and_no_old_pod_answers_after_the_new_one(names: list[str]) -> None:
    answers = [(float(at), name) for at, name in enumerate(names)]
    inner = "".join(name[:1] or " " for name in names).strip()
    gaps = [len(part) for part in inner.replace("o", "x").replace("n", "x").split("x") if part]
    assert longest_silence(answers) == (max(gaps) + 1 if gaps else None)
    after = names[names.index("new") :] if "new" in names else []
    assert mixed_answers(answers, "old", "new") == sum(name == "old" for name in after)


def test_the_service_reads_its_instance_from_either_version_of_cgroups() -> None:
    assert instance_of("4:cpu,cpuacct:/slackwater-1a2b/prod/uid\n0::/\n") == "1a2b"
    assert instance_of("0::/user.slice/slackwater-9f/prod/x\n") == "9f"
    assert instance_of("0::/init.scope\n") == ""
