"""Records by id on disk: small, replaced as a whole. A file that cannot be read is put aside for a person to look at:
an agent that does not start is worse than something that is asked for again.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.durable import replace_file
from slackwater.model.json_text import parse_json_text
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)


class Identified(Protocol):
    """A dataclass with an id."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


R = TypeVar("R", bound=Identified)


@dataclass(frozen=True, slots=True)
class JsonRecords(Generic[R]):
    """A JSON list of records, each with an `id`."""

    path: Path
    disk: DiskFiles = OS_FILES

    @abstractmethod
    def record(self, item: dict[str, Any]) -> R:
        """Of a newer version, what is known here. Raises ValueError, TypeError, KeyError."""

    def load(self) -> dict[str, R]:
        try:
            raw: list[dict[str, Any]] = parse_json_text(self.disk.read(self.path))
            return {item["id"]: self.record(item) for item in raw}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            aside = self.path.with_name(f"{self.path.name}.unreadable")
            with suppress(OSError):  # a read-only disk: the file stays where it is
                self.disk.rename(self.path, aside)
            _log.error("records not readable", file=str(aside), error=repr(error))
            return {}

    def save(self, records: Mapping[str, R], *, sync: bool = True) -> None:
        items = [asdict(record) for record in records.values()]
        content = json.dumps(items, default=datetime.isoformat, indent=1).encode()
        replace_file(self.path, content, self.disk, sync=sync)


def known_fields(item: Mapping[str, Any], names: Iterable[str], times: Iterable[str]) -> dict[str, Any]:
    """The fields with these names, those of `times` as times. Raises KeyError, ValueError."""
    read = {name: datetime.fromisoformat(item[name]) if item[name] else None for name in times}
    return {name: item[name] for name in names if name in item} | read
