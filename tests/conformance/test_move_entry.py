"""The adaptors of what surrounds a move ask the product: with another world they give another answer."""

from __future__ import annotations

from typing import Any

import pytest
from files import judge
from koord_descheduler import ADAPTORS
from koord_move_entry import RAW
from outstanding import reason_of

SMALL = '{"cpu": "8", "memory": "16Gi"}'
ALL = {"cpu": "32", "memory": "64Gi"}
TERM = {"match_expressions": [["zone", "NotIn", ["a"]]]}
AVOIDS = {"match_fields": [["metadata.name", "NotIn", ["n"]]]}
STEPS = ["evict error", "pod missing, status ReservationScheduled"]


@pytest.mark.parametrize(
    ("suite", "given", "out", "word"),
    [
        ("evict_entry", {"create_error": True}, {"ok": False}, "pass"),
        ("evict_entry", {"create_error": False}, {"ok": True}, "pass"),
        ("evict_entry", {"create_error": False}, {"ok": False}, "FAIL"),
        ("evict_entry", {"dry_run": True}, {"ok": True}, "not covered"),
        ("raw_allocatable", {RAW: "{", "allocatable": ALL}, ALL, "pass"),
        ("raw_allocatable", {RAW: SMALL, "allocatable": ALL}, ALL, "FAIL"),
        ("reservation_template", {"node": "n", "affinity_terms": [TERM]}, {"terms": [{**TERM, **AVOIDS}]}, "pass"),
        ("reservation_template", {"node": "n", "affinity_terms": [TERM]}, {"terms": [TERM]}, "FAIL"),
        ("reservation_template", {"node": "n", "affinity_terms": [AVOIDS]}, {"terms": [AVOIDS]}, "not covered"),
        ("reservation_template", {"node": "n", "volumes": [{"pvc": "a"}]}, {"volumes": []}, "differ"),
        ("migration_state", {"steps": STEPS}, {"results": ["error bubbled up", "Failed/MissingPod"]}, "pass"),
        ("migration_state", {"steps": STEPS}, {"results": ["done", "Failed/MissingPod"]}, "FAIL"),
        ("migration_state", {"steps": ["something else"]}, {"results": ["done"]}, "not covered"),
        ("node_pool_select", {"selector": {"$op": "Is"}, "nodes": [], "processed": []}, [], "FAIL"),
        ("node_pool_select", {"selector": {"$op": "Exists"}, "nodes": [], "processed": []}, "error", "not covered"),
    ],
)
def test_the_world_decides(suite: str, given: dict[str, Any], out: Any, word: str) -> None:
    assert judge(ADAPTORS[suite], {"in": given, "out": out}).word == word


def test_no_suite_of_moves_waits_for_an_issue() -> None:
    for suite in ("node_imbalance", "removal_gain", "scale_down_rank", "another"):
        assert "not built yet" not in reason_of("koord-descheduler-vectors/1", suite)
