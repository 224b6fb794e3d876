"""A backup: one folder with the database, the streams, and a manifest of their contents."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from slackwater.bus.admin.stream_backup import StreamCopy, copy_stream, is_there, restore_stream
from slackwater.bus.admin.streams import load as load_topology
from slackwater.bus.connect.access import NatsAccess
from slackwater.bus.connect.nats_bus import connect_bus
from slackwater.cli.composition import SHARED
from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, SlackwaterError, Unavailable
from slackwater.model.json_text import parse_json_text
from slackwater.model.plurals import counted
from slackwater.runtime.embedded_postgres import installed_binaries
from slackwater.runtime.owned_files import open_new, write_atomically
from slackwater.runtime.version import version
from slackwater.store import backup as database
from slackwater.store.provision import prepare_roles

FORM = 1
"""Format version of the folder; a newer one is refused."""
MANIFEST = "manifest.json"
DATABASE = "database.dump"
_DATED = "slackwater-"
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Manifest:
    """The contents of a backup. `state_hash` covers every table of every service."""

    form: int
    slackwater: str
    taken_at: str
    services: list[str]
    state_hash: str
    tables: Mapping[str, str]
    streams: Mapping[str, Mapping[str, Any]]


async def create_backup(folder: Path, postgres: str, nats: str, now: str, say: Say) -> Manifest:
    """Write a backup while everything runs: first the database, then the streams.

    The order loses nothing. Messages that the streams have beyond the database are redelivered after a restore and
    deduplicated by id; events that the database has not yet published are in its outbox. Raises Conflict when the
    folder already holds a backup, Unavailable, Misconfigured.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # private, because the folder holds every record
    if any(folder.iterdir()):
        raise Conflict(f"{folder} is not empty; name a new folder for each backup")
    services = [part.name for part in SHARED if part.has_schema]
    begun = time.monotonic()
    os.close(open_new(folder / DATABASE))  # for its owner alone from the first byte; pg_dump writes into it
    tables = await database.dump(postgres, services, folder / DATABASE, _binaries())
    say(f"database: {len(tables)} tables, {_size(folder / DATABASE)}, {time.monotonic() - begun:.1f} s")
    streams = {}
    async with _client(nats) as client:
        for name in load_topology().durable():
            copied = await copy_stream(client, name, _file(folder, name))
            streams[name] = asdict(copied)
            say(f"stream {name}: {counted(copied.messages, 'message')}, {_size(_file(folder, name))}")
    manifest = Manifest(FORM, version(), now, services, database.state_hash(tables), tables, streams)
    # written last: a folder without a manifest is not a backup
    write_atomically(folder / MANIFEST, json.dumps(asdict(manifest), indent=1) + "\n")
    return manifest


async def restore_backup(folder: Path, postgres: str, nats: str, say: Say) -> Manifest:
    """Restore into an empty database and a broker without these streams, and check that the rows are the same.

    Every refusal happens before the first change, so that the command can be repeated. Raises InvalidInput for an
    incomplete backup, Conflict when data exists already or the hashes differ, Unavailable, Misconfigured.
    """
    manifest = read(folder)
    for file in (folder / DATABASE, *(_file(folder, name) for name in manifest.streams)):
        if not file.is_file():
            raise InvalidInput(f"{folder} is not a complete backup: {file.name} is missing", field="folder")
    async with _client(nats) as client:
        await database.refuse_tables(postgres, manifest.services)
        await _refuse_streams(client, list(manifest.streams), say)
        await _load(folder, manifest, postgres, say)
        restored: list[str] = []
        try:
            for name, described in manifest.streams.items():
                copy = StreamCopy(**described)
                await restore_stream(client, copy, _file(folder, name))
                restored.append(name)
                say(f"stream {name}: {counted(copy.messages, 'message')}, up to position {copy.last_position}")
        except SlackwaterError as error:
            done = ", ".join(["the database", *restored])
            text = f"{error.message}; restored so far: {done}. Remove that before the next attempt"
            raise type(error)(text) from error
    return manifest


async def _refuse_streams(client: Any, names: Sequence[str], say: Say) -> None:
    """Raises Conflict if one of the streams exists."""
    for name in names:
        try:
            exists = await is_there(client, name)
        # Its configuration lacks this permission. The broker still refuses each existing stream at its restore.
        except Unavailable as error:
            say(
                f"the broker does not allow listing its streams ({error.message}); write its configuration again "
                "with `slackwater nats-config`"
            )
            return
        if exists:
            raise Conflict(f"stream {name} exists already; restore into a broker without streams")


async def _load(folder: Path, manifest: Manifest, postgres: str, say: Say) -> None:
    begun = time.monotonic()
    await prepare_roles(postgres, manifest.services)
    await database.load(postgres, manifest.services, folder / DATABASE, _binaries())
    hashes = await database.table_hashes(postgres, manifest.services)
    differing = sorted(name for name in {*hashes, *manifest.tables} if hashes.get(name) != manifest.tables.get(name))
    if differing:
        raise Conflict(f"after the restore these tables differ from the backup: {', '.join(differing)}")
    say(f"database: {len(hashes)} tables, the same rows, {time.monotonic() - begun:.1f} s")


def read(folder: Path) -> Manifest:
    """The manifest of a backup. Raises InvalidInput."""
    file = folder / MANIFEST
    try:
        manifest = Manifest(**parse_json_text(file.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(f"{folder} is not a finished backup: {file.name}: {error}", field="folder") from None
    if manifest.form > FORM:
        raise InvalidInput(
            f"{folder}: format {manifest.form} was written by slackwater {manifest.slackwater}; "
            f"this version reads up to {FORM}: restore with the version that wrote it",
            field="folder",
        )
    return manifest


def dated_folder(parent: Path, now: datetime) -> Path:
    """A folder name that sorts by time, below a folder for backups."""
    return parent / f"{_DATED}{now:%Y-%m-%dT%H%M%SZ}"


def newest_below(parent: Path) -> Path:
    """The newest finished backup that dated_folder named. Raises InvalidInput if there is none."""
    finished = _finished(parent)
    if not finished:
        raise InvalidInput(f"{parent} holds no finished backup of `slackwater backup --dated`", field="folder")
    return finished[-1]


def delete_oldest(parent: Path, keep: int, say: Say) -> None:
    """Remove finished backups named by dated_folder beyond the newest `keep`; other files are left alone."""
    for old in _finished(parent)[:-keep]:
        shutil.rmtree(old)
        say(f"removed {old}")


def _finished(parent: Path) -> list[Path]:
    return sorted(folder for folder in parent.glob(f"{_DATED}*") if (folder / MANIFEST).is_file())


@asynccontextmanager
async def _client(nats: str) -> AsyncIterator[Any]:
    async with connect_bus(nats, name="backup", declares=False, access=NatsAccess()) as bus:
        yield bus.client


def _binaries() -> Path | None:
    with contextlib.suppress(Misconfigured):
        return installed_binaries()
    return None


def _file(folder: Path, stream: str) -> Path:
    return folder / f"stream-{stream}.tar.s2"


def _size(file: Path) -> str:
    return f"{file.stat().st_size / 1e6:.1f} MB"
