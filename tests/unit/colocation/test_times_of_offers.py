"""Offers of a node are in one order by time, whatever the clock of the service does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from colocation_scene import Colocation
from hypothesis import given
from hypothesis import strategies as st

from slackwater.colocation.ports import FollowedStrategy
from slackwater.colocation.usecases.recompute_offer import recompute
from slackwater.model.time import later_than
from slackwater.offers.strategy import Strategy

_TIMES = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis


@given(st.lists(_TIMES, min_size=1, max_size=6))
def test_each_offer_is_later_than_the_last_and_no_earlier_than_the_clock(clock: list[datetime]) -> None:
    last: datetime | None = None
    for now in clock:
        offered_at = later_than(last, now)
        assert offered_at >= now
        assert last is None or offered_at > last
        last = offered_at


async def test_an_offer_made_after_the_clock_was_set_back_is_the_newest_by_time() -> None:
    scene = Colocation()
    await scene.describe()
    await scene.measure(0, 500)
    state = (await scene.store.states_of(["n"]))[0]
    followed = FollowedStrategy(Strategy(), ("settings",))
    now = scene.clock.now()
    state, ahead = recompute(state, followed, now + timedelta(minutes=10), None, republish=True)
    state, after = recompute(state, followed, now, None, republish=True)
    assert after[-1].data.generation == ahead[-1].data.generation + 1
    assert after[-1].data.offered_at > ahead[-1].data.offered_at
    assert after[0].data.record.decided_at == after[-1].data.offered_at, "the newest record explains the newest offer"
