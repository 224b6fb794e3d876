"""While PostgreSQL is away the events in hand are redelivered, however long that takes."""

from __future__ import annotations

from typing import Any, NoReturn, cast

import pytest
from tests.support.clock import FakeClock
from tests.support.windows import described

from slackwater.bus.consume.handlers import Verdicts
from slackwater.bus.consume.stats import Counters
from slackwater.bus.port import Received, Retry
from slackwater.colocation.edge.events import ON_DESCRIBED, ColocationEvents
from slackwater.colocation.usecases.recompute_offer import Offering
from slackwater.model.errors import Conflict, Unavailable


class _Away:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def begin(self) -> NoReturn:
        raise self._error


@pytest.mark.parametrize("error", [Unavailable("PostgreSQL does not answer"), Conflict("lost against another")])
async def test_a_batch_that_meets_an_outage_uses_up_no_delivery(error: Exception) -> None:
    offering = Offering(cast(Any, _Away(error)), cast(Any, None), FakeClock())
    received = Received(described("a"), 1, 1, "a")
    handler = Verdicts(ON_DESCRIBED, ColocationEvents(offering).on_described, Counters())
    verdicts = await handler([received, received])
    assert verdicts == [Retry(str(error), away=True, outage=isinstance(error, Unavailable))] * 2
