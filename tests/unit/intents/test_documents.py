"""Which documents an agent accepts and keeps, and which controls a writer may set."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.events.intent_declared import IntentDeclared, LocalWaterline, WeightPolicy
from slackwater.intents.controls import ENSURANCE, EXCLUSIVE, WRITERS, ControlField, Writer, shared_exclusive
from slackwater.intents.document import NO_CONTENT, Content, IntentLease, document_event, is_older, is_renewable

DRAIN = Writer("drain", frozenset({ControlField.EVICTIONS}))


def document(generation: int = 5, epoch: int = 3, seconds: float = 15.0, at: float = 0.0) -> IntentDeclared:
    lease = IntentLease(epoch, seconds)
    return document_event(ENSURANCE, "n1", generation, NO_CONTENT, lease, EPOCH + timedelta(seconds=at), None).data


documents = st.builds(document, st.integers(0, 4), st.integers(0, 3), st.just(15.0), st.integers(0, 3))


@pytest.mark.parametrize(
    ("late", "older", "why"),
    [
        (document(), False, "the same again is accepted"),
        (document(generation=4), True, "an earlier generation that was not declared later"),
        (document(generation=4, at=1), False, "a writer that lost its count starts again"),
        (document(generation=6, at=-1), False, "a clock that was set back does not stop the writer"),
        (document(generation=9, epoch=2, at=9), True, "from a replica that has lost the node"),
        (document(generation=1, epoch=4, at=-1), False, "from its successor"),
    ],
)
def test_what_is_older_than_the_document_held(late: IntentDeclared, older: bool, why: str) -> None:
    assert is_older(late, document()) == older, why


@given(documents, documents, documents)
def test_of_two_documents_one_at_most_is_older_and_nothing_is_older_than_itself(
    first: IntentDeclared, second: IntentDeclared, third: IntentDeclared
) -> None:
    assert not is_older(first, first)
    assert not (is_older(first, second) and is_older(second, first))
    if is_older(first, second) and is_older(second, third):
        assert is_older(first, third)


@pytest.mark.parametrize(
    ("held", "epoch", "renewable"),
    [
        (document(), 3, True),
        (document(), 4, True),
        (document(), 2, False),  # a replica that has lost the partition since
        (document(epoch=0), 3, False),  # a writer without partitions
        (document(seconds=0.0), 3, False),  # a node that was released
    ],
)
def test_what_a_renewal_prolongs(held: IntentDeclared, epoch: int, renewable: bool) -> None:
    assert is_renewable(held, epoch) == renewable


@pytest.mark.parametrize(
    ("content", "control"),
    [
        (Content(weights=WeightPolicy.BY_TIER), ControlField.WEIGHTS),
        (Content(waterlines=(LocalWaterline(metric="prod_cpu_pressure", value=0.1),)), ControlField.WATERLINES),
        (Content(rules="{}"), ControlField.RULES),
    ],
)
def test_a_writer_cannot_set_a_control_that_it_does_not_own(content: Content, control: ControlField) -> None:
    assert content.controls() == {control}
    with pytest.raises(ValueError, match=control):
        document_event(DRAIN, "n1", 1, content, IntentLease(1, 15), EPOCH, None)
    document_event(ENSURANCE, "n1", 1, content, IntentLease(1, 15), EPOCH, None)


def test_what_is_not_set_has_no_effect() -> None:
    assert NO_CONTENT.controls() == frozenset()
    weakest = document_event(DRAIN, "n1", 1, NO_CONTENT, IntentLease(1, 15), EPOCH, None).data.weights
    assert weakest == next(iter(WeightPolicy)), "the agent applies the policy that protects prod most"


def test_every_exclusive_control_has_one_owner() -> None:
    assert shared_exclusive(WRITERS) == frozenset()
    assert shared_exclusive([*WRITERS, DRAIN]) == frozenset()
    assert shared_exclusive([*WRITERS, Writer("other", frozenset(ControlField))]) == EXCLUSIVE
    assert len({writer.name for writer in WRITERS}) == len(WRITERS)
