"""Pods by name, the decisions about them, and the arithmetic that a reader can repeat."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest
from test_console_api import answer, api, problem
from tests.support.console.read_model import MemoryReadModel
from tests.support.story import SURGE, identifier, story

from slackwater.console.domain.arithmetic import relief_of, working_of
from slackwater.console.domain.candidates import candidates_of, is_carried_out
from slackwater.console.domain.chain import chain_of
from slackwater.console.domain.formatting import outcome
from slackwater.console.domain.pod_story import PodIdentity, narrowed, part_of
from slackwater.console.domain.views import DecisionFilter, EffectView, EvictionView, ObservationView, WrittenLimit
from slackwater.console.usecases.explain import chain, why_pod
from slackwater.console.usecases.translate import pod_views, usage_point
from slackwater.decisions.reasons import DecisionKind, Mode, Reason
from slackwater.decisions.record import Action, Alternative, DecisionRecord, Input, Replay, Term
from slackwater.events.usage_reported import UsageReported
from slackwater.model.errors import InvalidInput, NotFound

__all__ = ["api"]
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
GIB = 2**30


def action(uid: str, released: int, *, evicted: bool = False, key: float = 0.0) -> Action:
    return Action(
        pod_uid=uid, pod_name=f"name-{uid}", tier="batch", namespace="jobs", cpu_limit_before_milli=None,
        cpu_limit_after_milli=None if evicted else 100, released_milli=released, evicted=evicted, keys=(1.0, key),
    )  # fmt: skip


def record(kind: DecisionKind = DecisionKind.EVICT, **more: Any) -> DecisionRecord:
    """Memory: 6 of 8 GiB used, waterline at a half: 2 GiB lacking, 2.2 to release; 3 GiB go, another is spared."""
    values: dict[str, Any] = {
        "id": "d1",
        "kind": kind,
        "node": "n1",
        "subject": "memory",
        "service": "ensurance",
        "rule": "full",
        "mode": Mode.EVICT,
        "reason": Reason.EVICT_WATERLINE_CROSSED,
        "decided_at": NOON,
        "trigger_event_id": "e1",
        "inputs": (
            Input(name="mode", value="evict", unit="", source="nodeqos/default@1"),
            Input(name="node_memory_usage_ratio", value=0.75, unit="ratio", source="e1", observed_at=NOON),
            Input(name="waterline", value=0.5, unit="ratio", source="nodeqos/default@1"),
            Input(name="samples_above", value="2 of 2", unit="in a row", source="rule full"),
            Input(name="capacity_memory", value=8 * GIB, unit="bytes", source="e1"),
            Input(name="lacking", value=2 * GIB, unit="bytes", source="computed: (reading - target) x capacity_memory"),
            Input(name="excess_ratio", value=0.1, unit="ratio", source="nodeqos/default@1"),
            Input(name="gap", value=int(2.2 * GIB), unit="bytes", source="computed: (1 + excess_ratio) x lacking"),
        ),
        "terms": (Term(name="name-a", value=3 * GIB, note="evicted"),),
        "result": 3 * GIB,
        "unit": "bytes",
        "actions": (action("a", 250, evicted=True),),
        "alternatives": (
            Alternative(
                what="name-b", rejected_because="the gap is closed", keys=(1.0, 5.0), would_release=GIB, pod_uid="b"
            ),
            Alternative(what="name-p", rejected_because="tier prod is protected", pod_uid="p"),
            Alternative(what="disk/full", rejected_because="no reading of disk_usage_ratio"),
        ),
        "order": "lower tier, more memory used, uid",
        "replay": Replay(function="m:f", arguments={}),
    }
    return DecisionRecord(**{**values, **more})


EFFECT = EffectView(
    "d1", "n1", "node_memory_usage_ratio", 0.75, 0.4, 0.5, True, NOON, NOON + timedelta(seconds=9), 6.5, 9.0
)
ENDED = EvictionView("d1/1", "n1", "a", "ensurance", "killed", "", NOON, "d1")
ANSWERS = ["eviction.completed", "intent.observed"]


def test_the_arithmetic_is_shown_line_by_line_in_the_units_of_the_record() -> None:
    where = "where capacity_memory is 8 589 934 592 bytes, reading is 75 %, target is 50 %"
    assert tuple(line.replace("\N{NARROW NO-BREAK SPACE}", " ") for line in working_of(record())) == (
        "node_memory_usage_ratio 75 % is above the waterline 50 %, in 2 of 2 samples that it takes",
        f"lacking = (reading - target) x capacity_memory = 2 147 483 648 bytes, {where}",
        "gap = (1 + 0.1) x 2 147 483 648 bytes = 2 362 232 012 bytes",
        "released: 3 221 225 472 bytes by 1 pod; remaining = gap - released, not below 0 = 0 bytes",
    )


def test_a_preview_names_what_would_be_released() -> None:
    assert working_of(record(reason=Reason.EVICT_OBSERVED_ONLY))[-1].startswith("would be released: ")
    assert outcome(record(reason=Reason.EVICT_OBSERVED_ONLY)) == "would release 3Gi"
    assert outcome(record()) == "releases 3Gi"


def test_offers_have_no_such_arithmetic() -> None:
    told = record(DecisionKind.OFFER, reason=Reason.OFFER_CHANGED)
    assert (working_of(told), candidates_of(told), is_carried_out(told)) == ((), (), True)


def test_an_effect_is_shown_in_the_unit_of_its_metric() -> None:
    assert relief_of(record(), EFFECT) == (
        "node_memory_usage_ratio relieved: from 75 % to 40 % (35 % less), waterline 50 %; written after 6.5 s,"
        " seen after 9 s"
    )
    cpu = (Input(name="node_cpu_usage", value=1700, unit="milli-cores", source="e1"),)
    metric: dict[str, Any] = {
        "metric": "node_cpu_usage",
        "before": 1700.0,
        "after": 1800.0,
        "waterline": 1000.0,
        "relieved": False,
    }
    worse = replace(EFFECT, **metric)
    assert "from 1.7 cores to 1.8 cores (0.1 cores more), waterline 1 core" in relief_of(record(inputs=cpu), worse)


def test_candidates_stand_in_the_order_of_the_decision_and_others_behind() -> None:
    rows = candidates_of(record())
    assert [(one.name, one.place, one.chosen) for one in rows] == [
        ("name-a", 1, True), ("name-b", 2, False), ("name-p", None, False),
    ]  # fmt: skip
    assert [(one.released, one.would_release) for one in rows] == [(3 * GIB, None), (None, GIB), (None, None)]


def test_a_restore_lists_the_first_pod_to_be_restored_first() -> None:
    actions = (action("a", -10, key=2), action("c", -20, key=7))
    terms = tuple(Term(name=one.pod_name, value=one.released_milli) for one in actions)
    told = record(DecisionKind.RESTORE, reason=Reason.RESTORE_HEADROOM, actions=actions, terms=terms, result=-30)
    assert [(one.pod_uid, one.place) for one in candidates_of(told)] == [("c", 1), ("b", 2), ("a", 3), ("p", None)]


def test_a_restore_is_no_relief_but_keeps_below_or_not() -> None:
    told = record(DecisionKind.RESTORE, reason=Reason.RESTORE_HEADROOM)
    assert "stays at or below its waterline: from" in relief_of(told, EFFECT)
    assert "is above its waterline again: from" in relief_of(told, replace(EFFECT, relieved=False))


@pytest.mark.parametrize(
    ("changes", "carried_out"),
    [
        ({}, True),
        ({"reason": Reason.EVICT_OBSERVED_ONLY}, False),
        ({"actions": (), "terms": (), "result": 0}, False),
    ],
)
def test_a_preview_or_a_throttle_without_pods_is_only_recorded(changes: dict[str, Any], carried_out: bool) -> None:
    assert is_carried_out(record(**changes)) is carried_out


def test_an_eviction_is_complete_when_all_have_ended_and_the_effect_was_seen() -> None:
    def complete(effect: EffectView | None, *ended: EvictionView) -> bool:
        return chain_of(record(), trigger=None, observations=(), effect=effect, evictions=ended).complete

    assert [complete(None), complete(None, ENDED), complete(EFFECT, ENDED)] == [False, False, True]
    assert complete(None, replace(ENDED, outcome="refused")), "nothing was done: nothing is to be seen"
    whole = chain_of(record(), trigger=None, observations=(), effect=EFFECT, evictions=[ENDED])
    assert "name-a killed" in [step.summary for step in whole.steps]
    assert (whole.effect, whole.order, len(whole.candidates)) == (EFFECT, record().order, 3)


def test_a_part_has_the_act_on_the_pod_and_its_outcome() -> None:
    chosen = part_of(record(), "a", EFFECT, [ENDED])
    assert chosen is not None
    assert (chosen.chosen, chosen.place, chosen.candidates, chosen.ended) == (True, 1, 2, "killed")
    assert (chosen.released, chosen.evicted, chosen.effect) == (3 * GIB, True, EFFECT)
    spared = part_of(record(), "p", EFFECT, [ENDED])
    assert spared is not None
    assert (spared.chosen, spared.carried_out, spared.place) == (False, False, None)
    assert (spared.because, spared.ended) == ("tier prod is protected", None)
    assert part_of(record(), "nobody", None, []) is None


def identity(uid: str, *, node: str = "n1", namespace: str = "jobs", running: bool = True, age: int = 0) -> PodIdentity:
    return PodIdentity(uid, "web", namespace, node, running, NOON - timedelta(seconds=age))


@pytest.mark.parametrize(
    ("found", "node", "namespace", "meant"),
    [
        ([identity("a"), identity("b", node="n2")], None, None, ["a", "b"]),
        ([identity("a"), identity("b", node="n2")], "n2", None, ["b"]),
        ([identity("a"), identity("b", namespace="web")], None, "web", ["b"]),
        ([identity("a"), identity("b")], None, None, ["a", "b"]),
        ([identity("a"), identity("old", running=False)], None, None, ["a"]),
        ([identity("old", running=False, age=9), identity("new", running=False)], None, None, ["new"]),
        ([identity("a", running=False), identity("b", running=False, node="n2")], None, None, ["a", "b"]),
        ([identity("a"), identity("gone", running=False, node="n2")], "n2", None, ["gone"]),
        ([], None, None, []),
    ],
)
def test_a_pod_is_found_by_name_or_uid(
    found: list[PodIdentity], node: str | None, namespace: str | None, meant: list[str]
) -> None:
    assert sorted(one.uid for one in narrowed(found, "web", node, namespace)) == meant


def test_a_uid_means_one_pod() -> None:
    found = [identity("a"), identity("b", node="n2"), identity("old", running=False)]
    assert [one.uid for one in narrowed(found, "old", None, None)] == ["old"]


async def test_a_pod_that_is_gone_keeps_its_story() -> None:
    model = MemoryReadModel()
    await model.save_decisions([record(), record(id="d0", decided_at=NOON - timedelta(hours=1))])
    await model.save_effects([EFFECT])
    await model.save_evictions([ENDED])
    told = await why_pod(model, "name-a", None, None, None, 20)
    assert (told.pod.uid, told.pod.is_running, told.running, told.pod.seen_at) == ("a", False, None, NOON)
    assert [(one.id, one.ended) for one in told.decisions] == [("d1", "killed"), ("d0", None)]
    before = await why_pod(model, "a", None, None, NOON - timedelta(minutes=1), 20)
    assert [one.id for one in before.decisions] == ["d0"]
    spared = await why_pod(model, "name-p", None, None, None, 20)
    assert {one.because for one in spared.decisions} == {"tier prod is protected"}
    with pytest.raises(NotFound, match="no stored decision has considered it"):
        await why_pod(model, "name-z", None, None, None, 20)
    with pytest.raises(NotFound, match="in node 'n2'"):
        await why_pod(model, "name-a", "n2", None, None, 20)


async def test_of_the_past_the_pod_is_meant_that_had_the_name_then(model: MemoryReadModel) -> None:
    """A pod was evicted and came back under its name: what was decided then was decided about the former one."""
    await model.save_decisions([record(id="d0", decided_at=NOON - timedelta(hours=1))])
    event = next(one for one in story(NOON) if isinstance(one.data, UsageReported))
    started = NOON - timedelta(minutes=30)
    back = replace(pod_views(event.data)[0], uid="new", name="name-a", namespace="jobs", node="n1", started_at=started)
    await model.save_usage([(replace(usage_point(event), node="n1"), [back])])
    for at in (None, started):
        assert (await why_pod(model, "name-a", None, None, at, 20)).pod.uid == "new"
    before = started - timedelta(seconds=1)
    then = await why_pod(model, "name-a", None, None, before, 20)
    assert (then.pod.uid, [one.id for one in then.decisions]) == ("a", ["d0"])
    named = await why_pod(model, "new", None, None, before, 20)
    assert (named.pod.uid, named.decisions) == ("new", ())


async def test_several_that_are_meant_are_all_named() -> None:
    model = MemoryReadModel()
    other = record(
        id="d2", node="n2", actions=(action("c", 250, evicted=True).model_copy(update={"pod_name": "name-a"}),)
    )
    await model.save_decisions([record(), other])
    with pytest.raises(InvalidInput, match=r"jobs/name-a on n1 \(uid a\); jobs/name-a on n2 \(uid c\)") as caught:
        await why_pod(model, "name-a", None, None, None, 20)
    assert (caught.value.code, caught.value.field) == ("pod_ambiguous", "pod")


async def test_the_api_has_the_history_of_a_pod_and_names_its_namesakes(api: httpx2.AsyncClient) -> None:
    several = await problem(api, "/v1/why/pod", 422, pod="encode-video-0")
    assert (several["code"], several.get("field", "pod")) == ("pod_ambiguous", "pod")
    assert "on edge-7" in several["detail"]
    told = await answer(api, "/v1/why/pod", pod="encode-video-0", node="edge-7")
    assert told["pod"]["uid"] == identifier("edge-7", "encode-video-0")
    assert told["running"]["node"] == "edge-7"
    throttle = next(one for one in told["decisions"] if one["kind"] == "throttle")
    assert (throttle["chosen"], throttle["place"], throttle["candidates"]) == (True, 1, 2)
    assert throttle["effect"]["waterline"] == pytest.approx(0.12)
    assert throttle["working"]
    spared = await answer(api, "/v1/why/pod", pod=identifier("edge-7", "checkout-0"), limit=1)
    assert [one["because"] for one in spared["decisions"]] == ["tier prod is protected"]
    assert (await problem(api, "/v1/why/pod", 404, pod="encode-video"))["code"] == "pod_not_found"


async def test_decisions_by_pod_combine_with_other_filters_and_page(api: httpx2.AsyncClient) -> None:
    uid = identifier("edge-7", "encode-video-1")
    every = (await answer(api, "/v1/decisions", pod=uid, limit=500))["items"]
    assert {one["node"] for one in every} == {"edge-7"}
    named = (await answer(api, "/v1/decisions", pod="encode-video-1", node="edge-7", limit=500))["items"]
    assert [one["id"] for one in named] == [one["id"] for one in every]
    found, token = [], None
    while True:
        more = {"continue": token} if token else {}
        page = await answer(
            api, "/v1/decisions", pod=uid, kind="throttle", carriedOut=True, pool="edge", limit=1, **more
        )
        found += page["items"]
        if not (token := page.get("continue")):
            break
    assert [one["id"] for one in found] == [one["id"] for one in every if one["kind"] == "throttle"]
    assert (await answer(api, "/v1/decisions", pod=uid, pool="nowhere"))["items"] == []
    assert (await answer(api, "/v1/decisions", pod=uid, carriedOut=False))["items"] == []
    checkout = identifier("edge-7", "checkout-0")
    assert (await answer(api, "/v1/decisions", pod=checkout))["items"] == []
    assert (await answer(api, "/v1/decisions", pod=checkout, spared=True))["items"]


async def test_a_chain_has_the_arithmetic_the_candidates_and_the_relief(api: httpx2.AsyncClient) -> None:
    told = await answer(api, f"/v1/decisions/{identifier('edge-7', 'throttle', SURGE[0] + 25)}/chain")
    assert told["working"][0].startswith("prod_cpu_pressure ")
    assert [one["chosen"] for one in told["candidates"]] == [True, True, False]
    assert told["effect"]["relieved"] is True
    assert "relieved: from " in told["relief"]


async def test_the_memory_model_finds_pods_by_name_within_a_filter(told: MemoryReadModel) -> None:
    wanted = DecisionFilter(pod="checkout-0", spared=True, kind=DecisionKind.RESTORE, node="edge-7")
    assert {one.kind for one in await told.decisions(wanted)} == {DecisionKind.RESTORE}


async def test_an_answer_of_another_node_is_none_of_a_decisions_answers() -> None:
    """An agent names in its answers whatever decision it likes."""
    model, forged = MemoryReadModel(), replace(ENDED, node="n2", outcome="refused")
    written = WrittenLimit("a", 100, None, "d1")
    seen = ObservationView("o1", "n2", "ensurance", 1, NOON, NOON, (written,), ())
    everywhere = record(id="d2", node="quota:default")
    await model.save_decisions([record(), everywhere])
    await model.save_evictions([forged, replace(forged, id="d2/1", decision_id="d2")])
    await model.save_observations([seen])
    assert [step.kind for step in (await chain(model, "d1")).steps if step.kind in ANSWERS] == []
    await model.save_evictions([ENDED])
    await model.save_observations([replace(seen, event_id="o2", node="n1")])
    assert [step.kind for step in (await chain(model, "d1")).steps if step.kind in ANSWERS][::-1] == ANSWERS
    assert [step.kind for step in (await chain(model, "d2")).steps if step.kind in ANSWERS] == ["eviction.completed"]
