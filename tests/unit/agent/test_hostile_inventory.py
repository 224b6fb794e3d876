"""Whatever a pod or a node says, the agent's report and description are accepted, and name what they changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import pod as batch_pod
from agent_world import World
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_agent_disconnected import records, wanted
from tests.kubelet.pods import NODE, container, node_pod
from tests.kubelet.simulated_node import SimulatedNode, simulated
from tests.support.clock import EPOCH
from tests.support.reports import described, pod, pod_usage, report, usage

from slackwater.agent.adapters.kubepods.node_source import with_node
from slackwater.agent.domain.kubelet import pod_of
from slackwater.agent.usecases.fit_payloads import (
    HEADER_BYTES,
    MOST_ANSWER_BYTES,
    MOST_MESSAGE_BYTES,
    MOST_NODE_LABEL_BYTES,
    MOST_POD_LABEL_BYTES,
    FitPayloads,
)
from slackwater.apiserver.node_pods import parse_node_pod
from slackwater.apiserver.records import NODES, PODS, parse_node
from slackwater.bus.admin.streams import load
from slackwater.bus.codec.cloudevents import encode
from slackwater.bus.codec.decoder import decode_message
from slackwater.events.codec import fast_decode
from slackwater.events.codec.body import validated
from slackwater.events.envelope import Payload, event_of
from slackwater.events.eviction_completed import EvictionCompleted
from slackwater.events.intent_observed import IntentObserved, ObservedLimit, ObservedStart
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported
from slackwater.events.waterline_crossed import WaterlineCrossed
from slackwater.ingestion.domain.reports import Arrival, KnownNode
from slackwater.ingestion.domain.validation import Accepted, ReportLimits, judge
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.bounds import MOST_CPU_MILLI, MOST_DOCUMENT
from slackwater.model.eviction_outcomes import EvictionOutcome
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.start_states import StartState

LIMITS = ReportLimits(ahead_seconds=60, behind_seconds=600)
TEXTS = st.sampled_from(["a", "x" * 600, "two\nlines", "a\0b", "\u00a0", "", "é"]) | st.text(max_size=5)
"""Without halves of surrogate pairs: an API server writes none, and the agent's reader of JSON refuses them."""
QUANTITIES = st.sampled_from(
    ["100m", "16000", "1e30", "-5", "10E", "9223372036854775807", "16000Gi", "0.3", "x", "", "1" * 60, "1e-400"]
) | st.integers(-(2**70), 2**70)
WHOLE = st.integers(-(2**70), 2**70)


def published(payload: Payload) -> Payload:
    """As a reader has what was published. Raises Undecodable."""
    message = encode(event_of(payload, source="agent/n", time=EPOCH))
    return decode_message(message.subject, type(payload), message.headers, message.body).data


def judged(data: UsageReported) -> object:
    """What ingestion says of a report of a node that was never described."""
    return judge(Arrival(report_from(data), data.node, EPOCH), KnownNode(data.node), LIMITS)


def amounts() -> st.SearchStrategy[dict[str, Any]]:
    names = ["cpu", "memory", "slackwater.io/batch-cpu", "slackwater.io/batch-memory", "kubernetes.io/batch-cpu"]
    return st.dictionaries(st.sampled_from(names), QUANTITIES, max_size=3)


def rules() -> st.SearchStrategy[dict[str, Any]]:
    requirement = st.fixed_dictionaries(
        {"key": TEXTS, "operator": st.sampled_from(["In", "Exists", "Near"]), "values": st.lists(TEXTS, max_size=70)}
    )
    selector = st.fixed_dictionaries({"matchExpressions": st.lists(requirement, max_size=3)})
    spread = st.fixed_dictionaries(
        {
            "topologyKey": TEXTS,
            "maxSkew": WHOLE,
            "whenUnsatisfiable": st.just("DoNotSchedule"),
            "labelSelector": selector,
        }
    )
    toleration = st.fixed_dictionaries({"key": TEXTS, "value": TEXTS, "effect": TEXTS})
    return st.fixed_dictionaries(
        {},
        optional={
            "nodeSelector": st.dictionaries(TEXTS, TEXTS, max_size=3),
            "topologySpreadConstraints": st.lists(spread, max_size=2),
            "tolerations": st.lists(toleration, max_size=70),
        },
    )


@st.composite
def pod_documents(draw: st.DrawFn) -> dict[str, Any]:
    """A pod as an API server could have it, and worse."""
    marks = {"slackwater.io/eviction-cost": draw(TEXTS), "slackwater.io/evict": draw(TEXTS)}
    document = node_pod(
        draw(TEXTS) or "p",
        labels=draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
        annotations=draw(st.sampled_from([{}, marks])),
        priority=draw(WHOLE | st.sampled_from([5500, -(2**31)])),
        owner=draw(st.none() | st.fixed_dictionaries({"kind": TEXTS, "name": TEXTS})),
        phase=draw(st.sampled_from(["Running", "Failed"]) | TEXTS),
        **draw(rules()),
    )
    document["spec"]["containers"] = [
        {"name": "main", "resources": {"requests": draw(amounts()), "limits": draw(amounts())}} for _ in range(2)
    ]
    document["metadata"]["uid"] = draw(st.sampled_from(["u", ""]) | TEXTS)
    document["status"] |= {
        "startTime": draw(TEXTS | st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])),
        "reason": draw(TEXTS),
        "containerStatuses": [{"name": "main", "restartCount": draw(WHOLE)}],
    }
    return document


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(pod_documents(), min_size=1, max_size=3), WHOLE, st.none() | WHOLE)
def test_no_pod_of_a_node_can_lose_its_report(
    documents: list[dict[str, Any]], bytes_used: int, limit: int | None
) -> None:
    pods = [pod_of(parse_node_pod(document)) for document in documents]
    amount = abs(bytes_used) % 2**63  # as a counter of the kernel; CPU is what the machine has
    usages = [replace(pod_usage("x"), pod=each, usage=usage(500, amount), cpu_limit_milli=limit) for each in pods]
    failed = tuple(replace(each, uid=f"f{each.uid}") for each in pods)
    sent = report("n", 1, EPOCH).model_copy(update={"pods": tuple(usages), "failed_pods": failed})
    fitted = FitPayloads()(sent)
    assert published(fitted) == fitted
    assert isinstance(judged(fitted), Accepted), judged(fitted)
    body = fitted.body().encode()
    assert fast_decode.read(UsageReported, body) in (None, validated(UsageReported, body))
    assert len(fitted.pods) == len({each.uid for each in pods} - {""}), "no pod is dropped"


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def status(**fields: Any) -> dict[str, Any]:
    return {"status": fields}


def metadata(**fields: Any) -> dict[str, Any]:
    return {"metadata": fields}


ONE_POD: dict[str, dict[str, Any]] = {
    "a memory request with a G too much": spec(containers=[container(memory="64000Gi")]),
    "CPU in exponents": spec(containers=[container(cpu="1e12")]),
    "a request of the whole pod": spec(resources={"requests": {"cpu": "9E", "memory": "9E"}}),
    "an overhead without end": spec(overhead={"cpu": "16000", "memory": "1e30"}),
    "an init container's absurd request": spec(initContainers=[container(cpu="123456")]),
    "borrowed beyond any machine": spec(
        containers=[{"name": "main", "resources": {"limits": {"slackwater.io/batch-cpu": "9E"}}}]
    ),
    "a resize that the kubelet has set aside absurdly": status(
        containerStatuses=[{"name": "main", "allocatedResources": {"cpu": "16000"}}]
    ),
    "restarts beyond 32 bits": status(containerStatuses=[{"name": "main", "restartCount": 2**40}]),
    "a start before the first day": status(startTime="0001-01-01T00:00:00Z"),
    "a start without an offset": status(startTime="2026-01-05 00:00:00"),
    "the lowest priority": spec(priority=-(2**31)),
    "an owner with a name of 600 letters": metadata(
        ownerReferences=[{"apiVersion": "a/v1", "kind": "K", "name": "o" * 600, "uid": "o", "controller": True}]
    ),
    "labels beyond counting": metadata(labels={f"l{number}": "v" for number in range(2000)}),
    "an annotation of a megabyte": metadata(annotations={"slackwater.io/eviction-cost": "9" * 1_000_000}),
    "a spread over a thousand domains": spec(
        topologySpreadConstraints=[
            {"topologyKey": f"k{number}", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for number in range(1000)
        ]
    ),
    "a reason of several lines": status(phase="Running", reason="OOMKilled\n\tat line 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_POD)
def test_one_pod_of_the_field_costs_its_neighbours_nothing(name: str) -> None:
    document, neighbour = node_pod("odd", container(cpu="1")), node_pod("web", container(cpu="250m"))
    for part, fields in ONE_POD[name].items():
        document[part] |= fields
    pods = [pod_of(parse_node_pod(each)) for each in (document, neighbour)]
    sent = _of(pods).model_copy(update={"failed_pods": (replace(pods[0], uid="failed"),)})
    fitted = FitPayloads()(sent)
    assert published(fitted) == fitted
    assert isinstance(judged(fitted), Accepted), judged(fitted)
    assert [each.pod.name for each in fitted.pods] == ["odd", "web"]
    assert fitted.pods[1] == sent.pods[1]
    assert (fitted == sent) is (fitted.left_out == ()), "what was changed is named"


@given(st.dictionaries(TEXTS, TEXTS, max_size=5), st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=70), WHOLE)
def test_nothing_that_a_node_is_labelled_with_can_lose_its_description(
    labels: dict[str, str], taints: list[tuple[str, str, str]], amount: int
) -> None:
    taint_list = [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints]
    node = parse_node({"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taint_list}})
    sent = described("n", EPOCH)
    facts = replace(with_node(sent.facts, node), kernel="k" * 600, annotations=labels)
    facts = replace(facts, reserved=replace(facts.reserved, memory_bytes=amount))
    fit = FitPayloads()
    fitted = fit(sent.model_copy(update={"facts": facts}))
    assert published(fitted) == fitted
    named = fit(report("n", 1, EPOCH)).left_out
    assert any(each.startswith("node: kernel: ") for each in named), "the next report names it"
    assert published(fit(report("n", 2, EPOCH)))


def test_pods_with_the_most_labels_give_way_and_no_other() -> None:
    greedy = [pod(f"greedy-{number}", labels=_labels(1000)) for number in range(40)]
    modest = [pod(f"modest-{number}", labels={"app": "web"}) for number in range(100)]
    fitted = FitPayloads()(_of([*greedy, *modest]))
    assert published(fitted) == fitted
    for each in fitted.pods:
        if each.pod.name.startswith("modest"):
            assert each.pod.labels == {"app": "web"}
        else:
            assert len(str(each.pod.labels)) < 2 * MOST_POD_LABEL_BYTES
    assert any("pod default/greedy-0: labels: " in note for note in fitted.left_out)


def test_a_report_of_any_number_of_pods_fits_into_a_message() -> None:
    rule = {f"k{number}": "v" * 50 for number in range(60)}
    pods = [pod(f"p{number:04}", labels=_labels(100)) for number in range(600)]
    fitted = FitPayloads()(_of([replace(each, labels={**each.labels, **rule}) for each in pods]))
    assert len(fitted.body()) <= MOST_MESSAGE_BYTES
    assert len(fitted.pods) == 600, "descriptions give way before pods do"
    fitted = FitPayloads()(_of([pod(f"p{number:04}") for number in range(5000)]))
    assert len(fitted.body()) <= MOST_MESSAGE_BYTES
    assert published(fitted) == fitted
    assert len(fitted.left_out) <= 64


def test_answers_of_any_length_fit_into_their_stream() -> None:
    limits = tuple(
        ObservedLimit.model_construct(pod_uid=f"p{number:04}", cpu_limit_milli=2**60, error=None, decision_id="d" * 40)
        for number in range(4096)
    )
    start = ObservedStart.model_construct(
        id="s", state=StartState.FAILED, pod_uid="", detail="x" * 300_000, started_at=None, ready_at=None
    )
    sent = IntentObserved.model_construct(
        node="n", writer="w", generation=1, boot_epoch="b", received_at=EPOCH, observed_at=EPOCH, limits=limits,
        memory_limits=(), starts=(start,), foreign_writers=tuple(f"/sys/fs/cgroup/{n:04}" * 9 for n in range(4096)),
    )  # fmt: skip
    fitted = FitPayloads()(sent)
    assert 50_000 < len(fitted.body()) <= MOST_ANSWER_BYTES
    assert published(fitted) == fitted
    ended = EvictionCompleted.model_construct(
        id="e", node="n", pod_uid="p", writer="w", outcome=EvictionOutcome.FAILED, detail="y" * 300_000,
        completed_at=EPOCH, decision_id="d",
    )  # fmt: skip
    assert len(FitPayloads()(ended).body()) < MOST_ANSWER_BYTES


def test_the_limits_are_those_of_the_streams() -> None:
    streams = load().streams
    for payload, most in (
        *((UsageReported, MOST_MESSAGE_BYTES), (WaterlineCrossed, MOST_MESSAGE_BYTES)),
        *((IntentObserved, MOST_ANSWER_BYTES), (EvictionCompleted, MOST_ANSWER_BYTES)),
    ):
        assert most + HEADER_BYTES == streams[payload.STREAM].max_message_bytes, payload.TYPE
    largest = streams[NodeDescribed.STREAM].max_message_bytes or MOST_DOCUMENT
    assert largest - HEADER_BYTES > 2 * MOST_NODE_LABEL_BYTES


def test_what_is_named_is_bounded_and_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = [pod(f"p{number}", priority=-(2**31), workload="w" * 600) for number in range(100)]
    fit, sent = FitPayloads(), _of(hostile)
    first, second = fit(sent), fit(sent)
    assert first.left_out == second.left_out
    assert (len(first.left_out), first.left_out[-1]) == (64, "and 137 more values")
    assert capsys.readouterr().out.count("values do not fit") <= 1
    assert FitPayloads()(_of([pod("a")])).left_out == ()


def _labels(count: int) -> dict[str, str]:
    return {f"example.com/label-{number:06}" + "x" * 200: "v" * 60 for number in range(count)}


def _of(pods: list[Pod]) -> UsageReported:
    usages = tuple(replace(pod_usage("x"), pod=each) for each in pods)
    return report("n", 1, EPOCH).model_copy(update={"pods": usages})


# ---- on a node


async def test_absurd_requests_and_limits_of_a_pod_stop_no_decision_of_a_disconnected_agent(world: World) -> None:
    world.driver.add(replace(batch_pod("wild"), request=Resources(2**80, 2**80)), limit="16000000")
    async with world.running():
        await world.declare(**wanted())
        await world.clock.advance(11)
        world.driver.pressure, world.driver.rates["wild"] = 0.5, 2000
        await world.clock.advance(3)
        world.driver.pressure, world.driver.rates["p"] = 0.0, 50
        await world.clock.advance(12)
    assert records(world)[0][0] == "throttle"
    assert records(world)[-1] == ("restore", "restore_complete", "agent")
    assert world.driver.limit("wild") == "16000000"


@pytest.fixture(params=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> SimulatedNode:
    return simulated(tmp_path, request.param == "v2")


async def test_the_node_goes_on_with_a_tenants_absurd_requests_and_limits(node: SimulatedNode) -> None:
    good = node.start(node_pod("good", container(cpu="1"), qos_class="Burstable"))
    wild = node.start(
        node_pod("wild", container(cpu="100m", cpu_limit="16000"), qos_class="Burstable", labels={"note": "two\nlines"})
    )
    node.api.put(PODS, node_pod("failed", container(cpu="16000"), phase="Failed"))
    metadata = {"name": NODE, "uid": "n", "labels": {"a": "b", "long": "x" * 600}}
    node.api.put(NODES, {"metadata": metadata, "spec": {}})
    async with node.agent():
        await node.clock.advance(6)
        sent = node.published(UsageReported)[0]
        assert published(sent) == sent
        assert {each.pod.uid for each in sent.pods} == {good, wild}
        assert [each.request.cpu_milli for each in sent.failed_pods] == [MOST_CPU_MILLI]
        assert "pod default/failed: request.cpu_milli: 16000000 is capped at 10000000" in sent.left_out
        assert any(each.startswith("pod default/wild: labels[note]") for each in sent.left_out)
        assert any(each.startswith("pod default/wild: cpu_limit_milli: 16000000") for each in sent.left_out)
        assert any(each.startswith("node: labels[long]") for each in sent.left_out)
        facts = node.published(NodeDescribed)[-1]
        assert published(facts) == facts
        assert facts.facts.labels == {"a": "b"}
        await node.declare(throttles=[{"pod_uid": wild, "cpu_limit_milli": 1000, "decision_id": "d"}])
        await node.clock.advance(3)
        await node.declare(throttles=[])
        await node.clock.advance(3)
        answers = node.published(IntentObserved)
        assert [published(answer) for answer in answers] == answers
        limits = [limit.cpu_limit_milli for answer in answers for limit in answer.limits]
        assert limits == [1000, MOST_CPU_MILLI], "throttled, then given back"
