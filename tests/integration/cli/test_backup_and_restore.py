"""A backup is restored whole and proved, or refused; nothing that exists is overwritten."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from tests.support.nats_server import purge_broker
from tests.support.postgres_server import FreshDatabase

from slackwater.bus.connect.nats_bus import NatsBus
from slackwater.cli import copies
from slackwater.cli.composition import SHARED
from slackwater.cli.copies import (
    MANIFEST,
    create_backup,
    dated_folder,
    delete_oldest,
    newest_below,
    read,
    restore_backup,
)
from slackwater.events.effect_measured import EffectMeasured
from slackwater.events.envelope import event_of
from slackwater.model.errors import Conflict, InvalidInput, Unavailable
from slackwater.store.backup import table_hashes

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SERVICES = [part.name for part in SHARED if part.has_schema]


def quiet(_: str) -> None:
    return None


def effect(decision: str) -> EffectMeasured:
    return EffectMeasured(
        decision_id=decision,
        node="n",
        metric="prod_cpu_pressure",
        before=0.5,
        after=0.1,
        waterline=0.2,
        relieved=True,
        actuated_at=NOW,
        measured_at=NOW,
        seconds_to_actuation=0.1,
        seconds_to_measurement=1,
    )


@pytest.fixture
async def databases(postgres_dsn: str, fresh_database: FreshDatabase) -> AsyncIterator[tuple[str, str]]:
    """Two databases of this test; the first has every service's schema at head, the second does not exist yet."""
    parts = urlsplit(postgres_dsn)
    made = await fresh_database(SERVICES)
    first = urlunsplit(parts._replace(path=urlsplit(made["console"]).path))
    name = f"backup_{uuid.uuid4().hex[:8]}"
    yield first, urlunsplit(parts._replace(path=f"/{name}"))
    admin = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
    await admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    await admin.close()


async def test_rows_streams_and_positions_are_put_back_and_proved(
    databases: tuple[str, str], bus: NatsBus, nats_url: str, tmp_path: Path
) -> None:
    before, after = databases
    await put_a_row(before)
    for number in range(40):
        await bus.publish(event_of(effect(f"d{number}"), source="test", time=NOW))
    await bus.jetstream.purge_stream("DECISIONS", seq=11)
    taken = await create_backup(tmp_path / "copy", before, nats_url, NOW.isoformat(), quiet)

    await purge_broker(bus)
    restored = await restore_backup(tmp_path / "copy", after, nats_url, quiet)

    assert restored == taken
    assert await table_hashes(after, SERVICES) == await table_hashes(before, SERVICES)
    state = (await bus.jetstream.stream_info("DECISIONS")).state
    assert (state.messages, state.first_seq, state.last_seq) == (30, 11, 40)
    message = await bus.jetstream.get_msg("DECISIONS", 17)
    assert json.loads(message.data or b"")["decision_id"] == "d16"
    await bus.declare()  # what a service does at its start: the restored streams are as declared


async def test_its_files_are_for_their_owner_alone_in_a_folder_that_all_may_read(
    databases: tuple[str, str], bus: NatsBus, nats_url: str, tmp_path: Path
) -> None:
    """A folder that an operator has made with the usual umask."""
    folder = tmp_path / "copy"
    folder.mkdir(mode=0o755)
    await create_backup(folder, databases[0], nats_url, NOW.isoformat(), quiet)
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}


async def test_an_existing_database_or_stream_is_never_overwritten(
    databases: tuple[str, str], bus: NatsBus, nats_url: str, tmp_path: Path
) -> None:
    before, after = databases
    await create_backup(tmp_path / "copy", before, nats_url, NOW.isoformat(), quiet)
    with pytest.raises(Conflict, match=r"already holds tables.*empty database"):
        await restore_backup(tmp_path / "copy", before, nats_url, quiet)
    with pytest.raises(Conflict, match="stream WINDOWS exists"):
        await restore_backup(tmp_path / "copy", after, nats_url, quiet)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(after)  # nothing was made of what is refused: it can be tried again
    with pytest.raises(Conflict, match="is not empty"):
        await create_backup(tmp_path / "copy", before, nats_url, NOW.isoformat(), quiet)


async def test_half_a_backup_and_a_broker_that_is_away_change_nothing(
    databases: tuple[str, str], bus: NatsBus, nats_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = databases
    await create_backup(tmp_path / "copy", before, nats_url, NOW.isoformat(), quiet)
    await purge_broker(bus)
    with monkeypatch.context() as patched:
        patched.setattr(copies, "connect_bus", partial(copies.connect_bus, wait_seconds=0.5))
        with pytest.raises(Unavailable, match="no NATS at"):
            await restore_backup(tmp_path / "copy", after, "nats://127.0.0.1:1", quiet)
    for lost in ("stream-DLQ.tar.s2", "database.dump"):
        (tmp_path / "copy" / lost).rename(tmp_path / lost)
        with pytest.raises(InvalidInput, match=f"{lost} is missing"):
            await restore_backup(tmp_path / "copy", after, nats_url, quiet)
        (tmp_path / lost).rename(tmp_path / "copy" / lost)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(after)


async def test_what_breaks_off_between_streams_says_what_is_to_be_removed(
    databases: tuple[str, str], bus: NatsBus, nats_url: str, tmp_path: Path
) -> None:
    before, after = databases
    await create_backup(tmp_path / "copy", before, nats_url, NOW.isoformat(), quiet)
    await purge_broker(bus)
    (tmp_path / "copy" / "stream-INTENTS.tar.s2").write_bytes(b"not what it was")
    with pytest.raises(Unavailable, match=r"restored so far: the database, WINDOWS, STATE, ROSTERS\. Remove that"):
        await restore_backup(tmp_path / "copy", after, nats_url, quiet)


async def test_a_row_that_differs_is_seen(
    databases: tuple[str, str], bus: NatsBus, nats_url: str, tmp_path: Path
) -> None:
    before, after = databases
    await create_backup(tmp_path / "copy", before, nats_url, NOW.isoformat(), quiet)
    manifest = json.loads((tmp_path / "copy" / MANIFEST).read_text())
    manifest["tables"]["console.alembic_version"] = "1:7"
    (tmp_path / "copy" / MANIFEST).write_text(json.dumps(manifest))
    await purge_broker(bus)
    with pytest.raises(Conflict, match=r"differ from the backup: console\.alembic_version"):
        await restore_backup(tmp_path / "copy", after, nats_url, quiet)


def test_a_folder_without_manifest_or_of_a_newer_form_is_no_backup(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="finished backup"):
        read(tmp_path)
    newer = {
        "form": 2,
        "slackwater": "9",
        "taken_at": "",
        "services": [],
        "state_hash": "",
        "tables": {},
        "streams": {},
    }
    (tmp_path / MANIFEST).write_text(json.dumps(newer))
    with pytest.raises(InvalidInput, match=r"format 2 was written by slackwater 9"):
        read(tmp_path)


def test_backups_named_by_time_are_found_and_forgotten_in_order(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="finished backup"):
        newest_below(tmp_path)
    folders = [dated_folder(tmp_path, NOW + timedelta(days=day)) for day in range(4)]
    for folder in folders:
        folder.mkdir()
        (folder / MANIFEST).touch()
    (folders[3] / MANIFEST).unlink()  # was interrupted
    (tmp_path / "mine").mkdir()
    assert newest_below(tmp_path) == folders[2]
    delete_oldest(tmp_path, 2, quiet)
    assert set(tmp_path.iterdir()) == {*folders[1:], tmp_path / "mine"}
    delete_oldest(tmp_path, 2, quiet)
    assert folders[1].is_dir()


async def put_a_row(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute("CREATE TABLE console.odd (at timestamptz, x float8, t text)")
    await connection.execute("ALTER TABLE console.odd OWNER TO slackwater_console")
    await connection.execute("INSERT INTO console.odd VALUES (now(), 0.1 + 0.2, 'ü'), (NULL, 'NaN', '')")
    await connection.close()
