"""Folding windows: exactly once per node and window, nothing learned from absence, vanished series collected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.prediction.domain.histogram import SeriesKey
from slackwater.prediction.domain.series import ModelSettings, PredictionState, WindowSamples
from slackwater.prediction.domain.snapshot import Snapshot, decode, encode

SETTINGS = ModelSettings(pod_retention_seconds=300, node_retention_seconds=3600)
START = 1_700_000_000 // 60


def window(node: str, number: int, *pods: str, cpu: float = 1000.0) -> WindowSamples:
    keys = [SeriesKey(node, "node", ""), *(SeriesKey(node, "pod", uid) for uid in pods)]
    start = (START + number) * 60
    return WindowSamples(node, start, start + 60, dict.fromkeys(keys, (cpu, 2000000000.0)))


def test_a_window_that_was_folded_is_not_folded_again() -> None:
    state = PredictionState(SETTINGS)
    assert state.fold(window("a", 5))
    before = encode(state, 0).body
    assert not state.fold(window("a", 5))
    assert not state.fold(window("a", 4))
    assert encode(state, 0).body == before
    assert state.fold(window("b", 4))
    assert state.fold(window("a", 6))


def test_vanished_pods_are_collected_and_their_rows_used_again() -> None:
    state = PredictionState(SETTINGS)
    state.fold(window("a", 0, "gone", "stays"))
    gone = SeriesKey("a", "pod", "gone")
    row = state.rows.find(gone)
    for number in range(1, 8):
        state.fold(window("a", number, "stays"))
    assert state.rows.find(gone) is None
    state.fold(window("a", 8, "stays", "new", cpu=50.0))
    new = SeriesKey("a", "pod", "new")
    assert state.rows.find(new) == row
    learned = state.quantiles([new], 0.95, 0.98)[new]
    assert learned.windows == 1
    assert learned.cpu_milli < 80  # nothing of the series that had the row before


def test_a_vanished_node_goes_later_than_its_pods() -> None:
    state = PredictionState(SETTINGS)
    state.fold(window("a", 0, "p"))
    state.fold(window("b", 30))
    assert {key.kind for key in state.rows.rows if key.node == "a"} == {"node"}
    state.fold(window("b", 100))
    assert not [key for key in state.rows.rows if key.node == "a"]
    assert "a" not in state.folded_until


def test_a_series_never_seen_has_no_quantiles() -> None:
    assert PredictionState(SETTINGS).quantiles([SeriesKey("a", "system", "")], 0.95, 0.98) == {}


steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 40), st.sets(st.sampled_from("pqrs")), st.floats(0, 1e5, width=32)),
    max_size=25,
)


@given(steps, st.integers(0, 25))
def test_a_state_restored_anywhere_ends_bit_for_bit_like_an_undisturbed_one(
    history: list[tuple[str, int, set[str], float]], cut: int
) -> None:
    windows = [window(node, number, *sorted(pods), cpu=cpu) for node, number, pods, cpu in history]
    straight = PredictionState(SETTINGS)
    for each in windows:
        straight.fold(each)
    broken = PredictionState(SETTINGS)
    for each in windows[:cut]:
        broken.fold(each)
    restored = decode(encode(broken, cut), SETTINGS)
    for each in windows[max(0, cut - 3) :]:  # some are delivered again
        restored.fold(each)
    assert encode(restored, 0) == encode(straight, 0)


def test_a_damaged_snapshot_is_refused() -> None:
    state = PredictionState(SETTINGS)
    state.fold(window("a", 0, "p"))
    good = encode(state, 7)
    body = bytearray(good.body)
    body[len(body) // 2] ^= 1
    with pytest.raises(InvalidInput, match="checksum"):
        decode(Snapshot(good.version, good.position, good.checksum, bytes(body)), SETTINGS)
    with pytest.raises(InvalidInput, match="version"):
        decode(Snapshot(99, good.position, good.checksum, good.body), SETTINGS)
    with pytest.raises(InvalidInput, match="half-lives"):
        decode(good, ModelSettings(cpu_half_life_seconds=60))
    assert np.array_equal(decode(good, SETTINGS).cpu.totals[:2], state.cpu.totals[:2])


def test_rows_freed_together_are_free_in_the_same_order_after_a_restore() -> None:
    straight = PredictionState(SETTINGS)
    straight.fold(window("a", 0, "first", "second"))
    for number in range(1, 7):
        straight.fold(window("a", number, "second"))
    straight.fold(window("a", 7, "second", "third"))  # takes the row of "first", so rows and ages differ in order
    restored = decode(encode(straight, 0), SETTINGS)
    for state in (straight, restored):
        for number in range(8, 15):
            state.fold(window("a", number))
    assert len(straight.rows) == 1
    assert restored.rows.free == straight.rows.free
