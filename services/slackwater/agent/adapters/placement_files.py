"""The placements of a machine on disk: the checkpoint of the resource manager, and what `slackwater exec` waits for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.durable import replace_file
from slackwater.agent.domain.resource_manager.checkpoint import Entries, checkpoint_text, entries_of
from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
CHECKPOINT, PLACEMENTS = "resource-checkpoint", "placements.json"


@dataclass(frozen=True, slots=True)
class JsonPlacements:
    """See PlacementFiles: two files of the agent's folder."""

    folder: Path
    disk: DiskFiles = OS_FILES

    def load(self) -> Entries | None:
        path = self.folder / CHECKPOINT
        try:
            return entries_of(self.disk.read(path).decode())
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, InvalidInput) as error:
            aside = path.with_name(f"{CHECKPOINT}.damaged")
            with suppress(OSError):
                self.disk.rename(path, aside)
            _log.error("checkpoint set aside", file=str(aside), error=str(error), hint="rebuilt from the cgroups")
            return None

    def save(self, entries: Entries) -> None:
        replace_file(self.folder / CHECKPOINT, checkpoint_text(entries).encode(), self.disk)

    def publish(self, answer: Mapping[str, Any]) -> None:
        replace_file(self.folder / PLACEMENTS, json.dumps(answer).encode(), self.disk, sync=False)


def read_placements(folder: Path) -> dict[str, Any] | None:
    """Returns what the agent of this folder has published; None if nothing can be read."""
    try:
        answer = parse_json_text((folder / PLACEMENTS).read_bytes())
    except (OSError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None
