"""Label selectors as kubectl takes them, `--sort-by`, and groups of decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.cli.decision_groups import GAP, GROUP, grouped
from slackwater.cli.decision_list import DECISION
from slackwater.cli.list_kinds import NODE, POD
from slackwater.cli.output import cpu, memory
from slackwater.cli.selection import parse_selector, sort_items
from slackwater.model.errors import InvalidInput

LABELS = {"zone": "a", "slackwater.io/pool": "web", "gpu": ""}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("zone=a", True),
        ("zone==a,gpu", True),
        ("zone!=a", False),
        ("rack!=7", True),
        ("zone in (b, a)", True),
        ("zone notin (b,c),slackwater.io/pool=web", True),
        ("zone notin (a)", False),
        ("!rack", True),
        ("!gpu", False),
        ("gpu=", True),
        ("rack", False),
        ("", True),
    ],
)
def test_a_selector_holds_as_in_kubernetes(text: str, holds: bool) -> None:
    assert parse_selector(text).matches(LABELS) is holds


@pytest.mark.parametrize("text", ["=a", "zone=a b", "zone in a", "zone in (a", "zone,,rack", "zone>3"])
def test_a_selector_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"--selector: .* is not a requirement"):
        parse_selector(text)


def _pod(milli: int | None) -> dict[str, Any]:
    return {"name": f"p{milli}", "usage": None if milli is None else {"cpu_milli": milli, "memory_bytes": milli}}


@given(st.lists(st.integers(0, 10**7) | st.none(), unique=True, max_size=8))
def test_a_column_and_its_path_give_the_same_order(amounts: list[int | None]) -> None:
    """Cells are rounded, so that values of one cell keep their order."""
    items = [_pod(milli) for milli in amounts]
    by_cpu = [item["usage"] for item in sort_items(items, POD, "cpu")]
    assert [each["cpu_milli"] for each in by_cpu if each] == sorted(milli for milli in amounts if milli is not None)
    assert all(each is None for each in by_cpu[sum(milli is not None for milli in amounts) :])
    downwards = [item["usage"] for item in sort_items(items, POD, "-.usage.cpu_milli")]
    assert [each for each in downwards if each] == [each for each in by_cpu if each][::-1]


@given(st.lists(st.integers(0, 2**45), min_size=2, max_size=8))
def test_memory_is_sorted_by_its_amount(amounts: list[int]) -> None:
    cells = [
        memory(item["usage"]["memory_bytes"]) for item in sort_items([_pod(each) for each in amounts], POD, "MEMORY")
    ]
    assert cells == [memory(each) for each in sorted(amounts)]


def test_a_column_that_is_none_lists_those_that_are() -> None:
    with pytest.raises(InvalidInput, match="--sort-by: 'colour' is not a column; allowed: name, liveness"):
        sort_items([], NODE, "colour")


def _decision(second: float, node: str = "n1", rule: str = "r", **fields: Any) -> dict[str, Any]:
    at = EPOCH + timedelta(seconds=second)
    whole = {"id": f"{second}", "kind": "throttle", "node": node, "subject": "batch-cpu", "service": "ensurance"}
    return {**whole, "rule": rule, "decided_at": at.isoformat(), **fields}


DECISIONS = st.lists(
    st.builds(
        _decision,
        st.integers(0, 5000),
        st.sampled_from(["n1", "n2"]),
        st.sampled_from(["r", "s"]),
    ),
    max_size=30,
).map(lambda found: sorted(found, key=lambda each: each["decided_at"], reverse=True))


@given(DECISIONS)
def test_every_decision_is_in_one_group_and_groups_are_apart(decisions: list[dict[str, Any]]) -> None:
    groups = grouped(decisions)
    assert sum(group["steps"] for group in groups) == len(decisions)
    assert [group["decided_at"] for group in groups] == sorted((g["decided_at"] for g in groups), reverse=True)
    for node, rule in {(group["node"], group["rule"]) for group in groups}:
        own = [group for group in groups if (group["node"], group["rule"]) == (node, rule)]
        for newer, older in pairwise(own):
            between = datetime.fromisoformat(newer["first_at"]) - datetime.fromisoformat(older["decided_at"])
            assert between >= GAP


def test_an_episode_is_one_group_however_long_it_lasts() -> None:
    ends = [_decision(second, episode="e1", kind=kind) for second, kind in ((9000, "restore"), (0, "throttle"))]
    [group] = grouped([ends[0], _decision(100), ends[1]])[:1]
    assert (group["steps"], group["kinds"], group["id"]) == (2, ["throttle", "restore"], "9000")


@pytest.mark.parametrize(("numbers", "count"), [((9, 4, 1), 9), ((9,), 9), ((1,), 1), ((0, 0), 2)])
def test_steps_without_a_record_of_their_own_count(numbers: tuple[int, ...], count: int) -> None:
    steps = [_decision(100 - place, episode="e1", step=step) for place, step in enumerate(numbers)]
    assert [group["steps"] for group in grouped(steps)] == [count]


@pytest.mark.parametrize(
    ("milli", "cell"), [(999, "0.999"), (1000, "1"), (1, "0.001"), (0, "0"), (None, "-"), (-20, "-0.02")]
)
def test_cells_of_cpu_are_in_cores_whatever_their_size(milli: int | None, cell: str) -> None:
    """A column has one unit: `799m` above `2.399` reads as the larger one."""
    assert cpu(milli) == cell


def test_a_group_shows_what_all_of_its_steps_did() -> None:
    """An episode that evicted a pod, whose last step found nothing."""

    def step(kind: str, seconds: int, *actions: dict[str, object]) -> dict[str, object]:
        return {
            "kind": kind,
            "mode": "evict",
            "reason": f"{kind}_waterline_crossed",
            "episode": "e",
            "step": 0,
            "decided_at": f"2026-01-05T10:00:{seconds:02}+00:00",
            "actions": actions,
            "result": 0,
            "unit": "milli-cores",
            "node": "n",
        }

    a = {"pod_uid": "1", "pod_name": "crunch", "released_milli": 500, "evicted": False}
    b = {"pod_uid": "2", "pod_name": "index", "released_milli": 900, "evicted": True}
    (row,) = grouped([step("throttle", 3), step("evict", 2, b), step("throttle", 1, a)])
    cells = {column.title: column.text(row) for column in GROUP if column.title in ("DONE", "CORES", "MEMORY", "PODS")}
    assert (cells["DONE"], cells["CORES"], cells["MEMORY"]) == ("yes", "0.5", "-")
    assert cells["PODS"] == "index (evicted), crunch"


@pytest.mark.parametrize(
    ("kind", "unit", "cores", "memory"),
    [
        ("offer", "milli-cores", "0", "-"),
        ("offer", "bytes", "-", "0"),
        ("prediction", "milli-cores", "0", "-"),
        ("throttle", "milli-cores", "-", "-"),
        ("claim", "milli-cores", "-", "-"),
        ("scheduling", "", "-", "-"),
    ],
)
def test_an_amount_that_is_decided_to_be_nothing_is_0(kind: str, unit: str, cores: str, memory: str) -> None:
    """An offer that fell to 0 is no unknown one."""
    decision = {"kind": kind, "mode": "observe", "reason": "r", "actions": [], "result": 0, "unit": unit}
    cells = {column.title: column.text(decision) for column in DECISION if column.title in ("CORES", "MEMORY")}
    assert (cells["CORES"], cells["MEMORY"]) == (cores, memory)
