"""The page of quotas: a tree with bullets, debts that add up, the queue, reclaims and history."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.clock import EPOCH
from tests.support.console.read_model import MemoryReadModel
from tests.support.story_quotas import CPU, MEMORY, quotas

from slackwater.charts.quota_chart import LEDGER_GAP_SECONDS, QuotaSample, quota_bullet, quota_history
from slackwater.charts.svg import Frame
from slackwater.console.domain.quota_points import LARGE_SECONDS, SMALL_SECONDS, SMALL_TREE, QuotaAmounts, ledger_time
from slackwater.console.usecases.quotas_page import MOST_CHARTS, debts_of, quotas_page, rows_of
from slackwater.events.quota_accounted import AccountedQuota, QuotaAccounted
from slackwater.fairshare.documents import MOST_BYTES, MOST_CORES

LEDGERS: Sequence[QuotaAccounted] = [event.data for event in quotas(EPOCH, 900)]
LAST = LEDGERS[-1]
NOW = LAST.accounted_at + timedelta(seconds=5)


async def told(*ledgers: QuotaAccounted) -> MemoryReadModel:
    model = MemoryReadModel()
    await model.save_quota_ledgers(ledgers or LEDGERS)
    return model


async def page(client: httpx2.AsyncClient, path: str) -> str:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.text)))


async def test_the_page_shows_the_tree_with_its_debts_queue_and_reclaims(told_client: httpx2.AsyncClient) -> None:
    text = await page(told_client, "/quotas?span=15m")
    assert f"Ledger of {CPU}, tree default the pool has 24 cores on 4 nodes, 1 of them lost or cordoned" in text
    assert "team-b max 16 used 14 borrowed 6 14 15 8 8 16 0 6 0 3 1 " in text
    assert "team-a lends 6 cores, owed 6 cores" in text
    assert "team-b borrows 6 cores" in text
    assert re.search(r"render-b-7 of team-b by \S+ overdue , for train-a-2 of team-a: lender min", text), text
    assert "render-b-6 of team-b (team-b/render), priority 0: batch-cpu 3" in text
    assert "2 claims wait" in text
    assert "about 4 min, 9 of 10 within 15 min right for 88 % of 17" in text
    assert "no estimate yet" in text
    raw = (await told_client.get("/quotas")).text
    assert raw.count('class="depth depth2"') == 2
    assert 'aria-label="used 14, borrowed 6, runtime 8, min 8, max 16"' in raw


async def test_another_resource_and_span_are_chosen_by_links(told_client: httpx2.AsyncClient) -> None:
    text = await page(told_client, f"/quotas?resource={MEMORY}&span=6h")
    assert f"Ledger of {MEMORY}" in text
    assert "56Gi" in text
    assert f"{MEMORY} over the last 6h" in text
    other = await page(told_client, "/quotas?resource=nothing&span=never&tree=none")
    assert f"Ledger of {CPU}" in other, "what does not exist is answered with what does"


async def test_without_quotas_there_is_no_ledger() -> None:
    for gone in ((), (LAST.model_copy(update={"quotas": ()}),)):
        model = MemoryReadModel()
        await model.save_quota_ledgers(gone)
        assert (await quotas_page(model, NOW, "", "", "1h")).ledger is None


async def test_a_tree_that_lost_its_quotas_is_not_shown() -> None:
    later = LAST.model_copy(update={"quotas": (), "accounted_at": NOW})
    assert (await quotas_page(await told(*LEDGERS, later), NOW, "", "", "1h")).ledger is None


async def test_a_ledger_that_is_not_published_any_more_is_said_to_be_old() -> None:
    model = await told()
    assert not (await quotas_page(model, NOW, "", "", "1h")).stale
    assert (await quotas_page(model, NOW + timedelta(minutes=5), "", "", "1h")).stale


async def test_more_quotas_than_charts_are_counted() -> None:
    many = LAST.model_copy(
        update={"quotas": tuple(AccountedQuota(name=f"q{n}", parent="root", depth=1) for n in range(MOST_CHARTS + 3))}
    )
    view = await quotas_page(await told(many), NOW, "", "", "1h")
    assert (len(view.rows), len(view.histories), view.charts_beyond) == (MOST_CHARTS + 3, MOST_CHARTS, 3)


async def test_names_are_escaped_and_long_names_break_nothing() -> None:
    bad = LAST.model_copy(update={"quotas": (AccountedQuota(name="<b>&", parent="root", depth=1, used={CPU: 1}),)})
    view = await quotas_page(await told(bad), NOW, "", "", "1h")
    assert all("<b>" not in one.picture for one in view.histories)


def test_the_max_of_the_default_quota_limits_nothing() -> None:
    most = {CPU: 1000 * MOST_CORES, MEMORY: MOST_BYTES}
    wide = LAST.model_copy(update={"quotas": (AccountedQuota(name="default", parent="root", depth=1, max=most),)})
    assert [rows_of(wide, resource)[0].maximum for resource in (CPU, MEMORY)] == [None, None]
    assert [row.maximum for row in rows_of(LAST, CPU)] == [16_000, 16_000, 16_000, None, None]


def test_on_every_level_what_is_lent_is_what_is_borrowed() -> None:
    for ledger in LEDGERS:
        debts = debts_of(ledger, rows_of(ledger, CPU))
        assert [debt.parent for debt in debts] == ["root", "research"]
        for debt in debts:
            assert debt.lent == sum(row.borrowed for row in debt.borrowers) == sum(row.lent for row in debt.lenders)


@given(st.integers(0, 10**6), st.integers(0, 40))
def test_a_ledger_time_is_round_and_not_after_it(seconds: int, quotas: int) -> None:
    at = EPOCH + timedelta(seconds=seconds)
    step = SMALL_SECONDS if quotas <= SMALL_TREE else LARGE_SECONDS
    found = ledger_time(at, quotas)
    assert found.timestamp() % step == 0
    assert timedelta(0) <= at - found < timedelta(seconds=step)


amounts = st.integers(0, 10**12)


@given(amounts, amounts, amounts, amounts, st.one_of(st.none(), amounts), amounts)
@settings(max_examples=50)
def test_a_bullet_stays_within_its_frame(
    used: int, borrowed: int, runtime: int, low: int, high: int | None, top: int
) -> None:
    drawn = quota_bullet(used, borrowed, runtime, low, high, top, str)
    numbers = re.findall(r' (?:x|x1|x2|width)="([^"]+)"', drawn)
    assert numbers
    assert all(0 <= float(one) <= 260 for one in numbers)
    assert f"used {used}, borrowed {borrowed}, runtime {runtime}, min {low}" in drawn


def sample(seconds: float, used: int) -> QuotaSample:
    return QuotaSample(EPOCH + timedelta(seconds=seconds), used, used, used)


@pytest.mark.parametrize(("gap", "areas"), [(LEDGER_GAP_SECONDS, 1), (LEDGER_GAP_SECONDS + 1, 2)])
def test_the_history_has_a_hole_where_nothing_is_known(gap: float, areas: int) -> None:
    samples = [sample(0, 1), sample(gap, 2)]
    drawn = quota_history(Frame(300, 100), EPOCH, EPOCH + timedelta(seconds=600), samples, 1, 4, str, "x")
    assert drawn.count("usedquota") == areas
    assert "nan" not in drawn


@pytest.mark.parametrize("step", [30, 60, 300])
async def test_the_points_of_a_step_are_the_last_ones(step: int) -> None:
    model = await told()
    since, until = EPOCH, EPOCH + timedelta(seconds=900)
    points = await model.quota_points("default", CPU, since, until, step)
    assert [point.at for point in points] == sorted({*last_of(LEDGERS, step)})
    assert points[-1].quotas["team-b"] == QuotaAmounts(14_000, 8_000, 15_000)
    assert await model.quota_points("other", CPU, since, until, step) == []


def last_of(ledgers: Sequence[QuotaAccounted], step: int) -> list[datetime]:
    last: dict[int, Any] = {int(one.accounted_at.timestamp() // step): one.accounted_at for one in ledgers}
    return [ledger_time(at, 5) for at in last.values()]
