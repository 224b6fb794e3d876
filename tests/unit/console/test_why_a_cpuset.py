"""Why a pod has its CPUs: the record of a plan as the API and `slackwater why` show it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.support.console.read_model import MemoryReadModel

from slackwater.console.domain.candidates import candidates_of, is_carried_out
from slackwater.console.domain.formatting import outcome
from slackwater.console.usecases.explain import why_pod
from slackwater.decisions.reasons import DecisionKind, Reason
from slackwater.decisions.record import Action, Alternative, CpusetChange, DecisionRecord, Replay, Term

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def _record(id_: str = "c1", kind: DecisionKind = DecisionKind.CPUSET, minute: int = 0) -> DecisionRecord:
    change = CpusetChange(before="0-3", after="0-1", holder="dedicated")
    return DecisionRecord(
        id=id_,
        kind=kind,
        node="n1",
        subject="cpuset",
        service="agent",
        rule="",
        reason=Reason.CPUSET_ALLOCATED,
        decided_at=NOON + timedelta(minutes=minute),
        trigger_event_id=None,
        inputs=(),
        terms=(Term(name="online", value=4), Term(name="api", value=-2, note="0-1 alone")),
        result=2,
        unit="CPUs",
        alternatives=(Alternative(what="large", rejected_because="cpus: too few", pod_uid="l"),),
        actions=(
            Action(
                pod_uid="a",
                pod_name="api",
                tier="prod",
                cpu_limit_before_milli=None,
                cpu_limit_after_milli=None,
                released_milli=0,
                cpuset=change,
            ),
        ),
        replay=Replay(function="m:f", arguments={}),
    )


def test_the_pods_that_moved_and_the_refused_ones_are_candidates_that_release_nothing() -> None:
    rows = candidates_of(_record())
    assert [(row.name, row.chosen, row.released, row.because) for row in rows] == [
        ("api", True, None, ""),
        ("large", False, None, "cpus: too few"),
    ]
    assert is_carried_out(_record())
    assert outcome(_record()) == "pods share 2 CPUs"


async def test_the_decisions_about_a_pod_are_read_by_their_kind() -> None:
    model = MemoryReadModel()
    await model.save_decisions([_record(), _record("t1", DecisionKind.THROTTLE, minute=1)])
    assert [part.id for part in (await why_pod(model, "api", None, None, None, 9)).decisions] == ["t1", "c1"]
    (part,) = (await why_pod(model, "api", None, None, None, 9, DecisionKind.CPUSET)).decisions
    assert part.cpuset is not None
    assert (part.cpuset.before, part.cpuset.after, part.chosen) == ("0-3", "0-1", True)
    (refused,) = (await why_pod(model, "large", None, None, None, 9, DecisionKind.CPUSET)).decisions
    assert (refused.chosen, refused.because, refused.cpuset) == (False, "cpus: too few", None)
