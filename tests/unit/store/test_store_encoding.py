"""Events as rows of the outbox and back."""

from __future__ import annotations

import pytest
from tests.support.clock import EPOCH
from tests.support.reports import described, pod_usage, report

from slackwater.events.envelope import Event, Payload, event_of
from slackwater.events.serialized import type_of, written
from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import Tier
from slackwater.store.outbox_rows import headers_of, written_from


@pytest.mark.parametrize("payload", [described("n.1", EPOCH), report("n", 1, EPOCH, pods=[pod_usage("a", Tier.BATCH)])])
def test_an_event_comes_back_as_it_went(payload: Payload) -> None:
    event: Event[Payload] = event_of(payload, source="tests", time=EPOCH, causedby="cause", traceparent="trace")
    row = event.id, type_of(event.data), event.subject, headers_of(event), event.data.body()
    assert written_from(*row) == written(event)
    back = written_from(*row).event()
    assert back == event
    assert type(back.data) is type(payload)


def test_a_type_or_body_that_this_version_does_not_know_is_an_invalid_input() -> None:
    event = event_of(described("n", EPOCH), source="tests", time=EPOCH)
    with pytest.raises(InvalidInput, match="registry"):
        written_from(event.id, "unheard.of.v9", event.subject, headers_of(event), "{}")
    with pytest.raises(InvalidInput, match=r"node\.described"):
        written_from(event.id, type_of(event.data), event.subject, headers_of(event), "{}").event()
