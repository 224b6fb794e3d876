"""The ledgers of quota trees in both read models: the present of a tree, and its history."""

from __future__ import annotations

from datetime import timedelta

from tests.support.clock import EPOCH

from slackwater.console.ports import ReadModel
from slackwater.events.quota_accounted import AccountedQuota, QuotaAccounted

START, END = EPOCH, EPOCH + timedelta(minutes=15)


async def test_the_newest_ledger_of_a_tree_and_step_stays_and_outlives_its_retention(model: ReadModel) -> None:
    def ledger(tree: str, seconds: float, used: int) -> QuotaAccounted:
        quota = AccountedQuota(name="team", parent="root", depth=1, used={"cpu": used})
        at = START + timedelta(seconds=seconds)
        return QuotaAccounted(tree=tree, generation=used, total={}, quotas=(quota,), accounted_at=at)

    await model.save_quota_ledgers([ledger("b", 1.5, 2), ledger("b", 1, 1), ledger("b", 60, 3), ledger("a", 0, 9)])
    await model.save_quota_ledgers([ledger("b", 0.5, 7), ledger("b", 61, 4)])
    assert [(one.tree, one.generation) for one in await model.quota_ledgers()] == [("a", 9), ("b", 4)]
    points = await model.quota_points("b", "cpu", START, END, 5)
    assert [point.quotas["team"].used for point in points] == [2, 4]
    assert [point.quotas["team"].used for point in await model.quota_points("b", "cpu", START, END, 600)] == [4]
    await model.prune(END, START)
    assert [(one.tree, one.generation) for one in await model.quota_ledgers()] == [("a", 9), ("b", 4)]
    assert len(await model.quota_points("b", "cpu", START, END, 5)) == 1
