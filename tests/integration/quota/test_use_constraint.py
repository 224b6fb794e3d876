"""The constraint on what a quota uses: the twin of the simulated world refuses what PostgreSQL refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest
from tests.support.postgres_server import FreshDatabase
from tests.support.postgres_twin.database import twin_of

from slackwater.model.errors import SlackwaterError
from slackwater.model.time import SystemClock
from slackwater.quota.adapters.claim_rows import KeyedLedgerStore
from slackwater.quota.domain.ledger_records import QuotaUse
from slackwater.store.engine import connect_database
from slackwater.store.quarantine import Quarantine
from slackwater.store.quarantine_table import PostgresQuarantine


@pytest.fixture(params=["twin", "postgres"])
async def store(request: pytest.FixtureRequest, fresh_database: FreshDatabase) -> AsyncIterator[KeyedLedgerStore]:
    if request.param == "twin":
        database = twin_of("quota")
    else:
        database = connect_database((await fresh_database(["quota"]))["quota"], "quota", SystemClock())
    yield KeyedLedgerStore(database, Quarantine("quota", PostgresQuarantine(database, "quota"), SystemClock()))
    await database.close()


async def save(store: KeyedLedgerStore, used: Mapping[str, int], ceiling: Mapping[str, int]) -> str:
    """Returns how saving the use of one quota ends."""
    try:
        async with store.unit_of_work() as unit:
            await unit.save_uses([QuotaUse("team-a", "", used, ceiling)])
    except SlackwaterError as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - the driver's
        return str(getattr(error, "orig", error)).partition(" violates ")[2].partition("\n")[0]
    return "saved"


async def test_a_use_above_its_ceiling_or_below_zero_is_refused(store: KeyedLedgerStore) -> None:
    refused = 'check constraint "used_within_ceiling"'
    assert await save(store, {"cpu": 4}, {"cpu": 4, "memory": 1}) == "saved"
    assert await save(store, {"cpu": 5}, {"cpu": 4}) == refused
    assert await save(store, {"cpu": 1, "gpu": 7}, {"cpu": 4}) == "saved"
    assert await save(store, {"gpu": -1}, {}) == refused
    assert await save(store, {}, {}) == "saved"
