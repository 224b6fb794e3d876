"""Custom resources as documents: what is planned, and what is answered in their status."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.apiserver.objects import has_all
from slackwater.kubernetes.domain.document_plan import (
    DocumentFacts,
    FollowStatus,
    FollowVerdict,
    LedgerEntry,
    condition_of,
    is_written,
    plan_documents,
    status_of,
)

TRUE = FollowVerdict(FollowStatus.TRUE, "Followed", "")
FALSE = FollowVerdict(FollowStatus.FALSE, "InvalidInput", "no")


def entry(generation: int = 1, uid: str = "u", verdict: FollowVerdict = TRUE, stored: int = 4) -> LedgerEntry:
    return LedgerEntry("autonomies/a", uid, generation, generation, stored, verdict)


def facts(**changes: Any) -> DocumentFacts:
    fields = {"key": "autonomies/a", "uid": "u", "generation": 1, "entry": entry(), "stored": 4}
    return DocumentFacts(**{**fields, **changes})


@pytest.mark.parametrize(
    ("given", "changed", "deleted"),
    [
        pytest.param(facts(), 0, 0, id="answered"),
        pytest.param(facts(stored=None), 0, 0, id="answered, not compared yet"),
        pytest.param(facts(entry=None), 1, 0, id="new"),
        pytest.param(facts(generation=2), 1, 0, id="changed"),
        pytest.param(facts(uid="another"), 1, 0, id="created anew"),
        pytest.param(facts(entry=entry(verdict=FALSE)), 1, 0, id="refused"),
        pytest.param(facts(stored=5), 1, 0, id="changed another way"),
        pytest.param(facts(stored=0), 1, 0, id="lost by the service"),
        pytest.param(facts(uid="", generation=0), 0, 1, id="deleted"),
        pytest.param(facts(entry=None, waits_until=EPOCH + timedelta(seconds=1)), 0, 0, id="waits"),
    ],
)
def test_what_differs_is_stored_and_what_is_gone_deleted(given: DocumentFacts, changed: int, deleted: int) -> None:
    plan = plan_documents([given], EPOCH)
    assert (len(plan.changes), len(plan.deletions)) == (changed, deleted)
    assert plan.again_at == given.waits_until


@given(st.sampled_from(FollowStatus), st.integers(0, 3), st.sampled_from(("", "why")), st.integers(0, 9))
def test_a_status_is_written_once_and_its_condition_keeps_its_time(
    status: FollowStatus, in_force: int, message: str, seconds: int
) -> None:
    verdict, other = FollowVerdict(status, "R", message), {"type": "Other", "status": "True"}
    first = status_of(3, in_force, verdict, {"nodes": 2}, {}, EPOCH)
    present = {**first, "conditions": [other, *first["conditions"]]}
    again = status_of(3, in_force, verdict, {"nodes": 2}, present, EPOCH + timedelta(seconds=seconds))
    assert is_written(present, again)
    changed = status_of(4, in_force, verdict, {"nodes": 2}, present, EPOCH + timedelta(seconds=seconds))
    assert not is_written(present, changed)
    assert condition_of(changed)["lastTransitionTime"] == condition_of(present)["lastTransitionTime"]


@settings(max_examples=50)
@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_a_value_has_all_of_itself_and_of_itself_with_defaults(value: Any) -> None:
    assert has_all(value, value)
    assert has_all({"a": value, "default": 1}, {"a": value})
    assert not has_all({"default": 1}, {"a": value})
    assert not has_all([value], [value, value])
