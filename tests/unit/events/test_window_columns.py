"""Windows travel as columns: one value per pod, or one for all; what does not fit is refused, never guessed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import windows
from tests.support.clock import EPOCH, FakeClock

from slackwater.cluster.fold import ClusterFold
from slackwater.events.codec.body import Undecodable, decode_body
from slackwater.events.codec.unknown_values import Lost, UnknownValue
from slackwater.events.envelope import event_of
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.events.windowed_usage import WindowedPod, WindowedUsage
from slackwater.model.tiers import Tier

amounts = st.integers(0, 2**40)
usages = st.builds(WindowedUsage, *[st.integers(0, 10**6)] * 4, *[amounts] * 4, st.integers(0, 3600))
pods = st.builds(
    lambda pod, name, labels, hours: replace(
        pod, name=name, labels=labels, started_at=pod.started_at + timedelta(hours=hours)
    ),
    st.builds(windows.pod, st.sampled_from("abcdef"), st.sampled_from(Tier), st.integers(0, 9000)),
    st.sampled_from(("web", "db")),
    st.dictionaries(st.sampled_from(("app", "team")), st.just("x")),
    st.integers(0, 3),
)
measured = st.lists(st.builds(WindowedPod, pods, usages), max_size=5, unique_by=lambda pod: pod.pod.uid)


def window(*pods: WindowedPod) -> UsageWindowed:
    return windows.window("n", 1, {}).data.model_copy(update={"pods": pods})


def read(data: UsageWindowed) -> UsageWindowed:
    return decode_body(UsageWindowed, data.body().encode())


@given(measured)
def test_a_reader_sees_the_window_that_was_published(pods: list[WindowedPod]) -> None:
    sent = window(*pods)
    found = read(sent)
    assert (len(found.pods), found.pods) == (len(pods), tuple(pods))
    assert found == sent
    assert found.body() == sent.body()
    assert UsageWindowed.from_document(json.loads(sent.body()), lambda node, digest: None) == sent


@given(measured)
def test_columns_and_pods_are_folded_alike(pods: list[WindowedPod]) -> None:
    sent = window(*pods)
    views = []
    for data in (sent, read(sent)):
        fold = ClusterFold()
        fold.apply(event_of(data, source="test", time=EPOCH, id="e"))
        view = fold.view(FakeClock(EPOCH).now()).pods
        views.append((view.uids, view.usage.value.tolist(), view.window_p95.value.tolist()))
    assert views[0] == views[1]


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("column", ["names", "tiers", "labels", "started_at", "cpu_milli.avg", "memory_bytes.max"])
def test_a_column_of_another_length_is_refused(column: str, change: int) -> None:
    sent = json.loads(window(*THREE).body())
    holder, (*way, last) = sent["pods"], column.split(".")
    for step in way:
        holder = holder[step]
    values = holder[last] * 3 if len(holder[last]) == 1 else holder[last]
    holder[last] = values[:change] if change < 0 else [*values, values[0]]
    with pytest.raises(Undecodable, match="for 3 pods") as refusal:
        decode_body(UsageWindowed, json.dumps(sent).encode())
    assert refusal.value.code == "invalid_payload"


@pytest.mark.parametrize("column", ["names", "tiers", "priorities", "request_cpu_milli", "started_at"])
def test_a_missing_column_of_identities_is_refused(column: str) -> None:
    sent = json.loads(window(*THREE).body())
    del sent["pods"][column]
    with pytest.raises(Undecodable, match=column):
        decode_body(UsageWindowed, json.dumps(sent).encode())


def test_usage_below_zero_is_refused() -> None:
    sent = json.loads(window(*THREE).body())
    sent["pods"]["cpu_milli"]["p90"] = [0, -10_000, 0]
    with pytest.raises(Undecodable, match="below zero"):
        decode_body(UsageWindowed, json.dumps(sent).encode())


@pytest.mark.parametrize("column", ["tiers", "qos"])
def test_a_pod_of_a_newer_version_shifts_no_numbers(column: str) -> None:
    sent: Any = json.loads(window(*THREE).body())
    values = sent["pods"][column]
    sent["pods"][column] = [(values * 3)[0], "of-a-newer-version", (values * 3)[2]]
    lost = Lost()
    found = decode_body(UsageWindowed, json.dumps(sent).encode(), lost)
    assert found.pods == (THREE[0], THREE[2])
    assert lost == {UnknownValue(f"pods.{column}[]", "of-a-newer-version"): 1}
    fold = ClusterFold()
    fold.apply(event_of(found, source="test", time=EPOCH, id="e"))
    view = fold.view(EPOCH).pods
    cpu = {uid: int(view.window_p95.value[row, 0]) for row, uid in enumerate(view.uids) if uid}
    assert cpu == {"a": 100, "c": 300}


THREE = tuple(
    WindowedPod(
        replace(windows.pod(uid), labels={"app": uid}),
        replace(windows.usage(100 * place, 2**20 * place), memory_max_bytes=2**30),
    )
    for place, uid in enumerate("abc", 1)
)
