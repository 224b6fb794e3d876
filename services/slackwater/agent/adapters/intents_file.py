"""The last document of each writer on disk, for an agent that restarts while disconnected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.durable import replace_file
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.model.json_text import parse_json_text
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_Declared = Event[IntentDeclared]


@dataclass(frozen=True, slots=True)
class JsonIntents:
    """`<agent dir>/intents.json`, replaced as a whole. A file that cannot be read counts as none: the agent then only
    restores, as without any document."""

    path: Path
    disk: DiskFiles = OS_FILES

    def load(self) -> Sequence[Event[IntentDeclared]]:
        try:
            raw = parse_json_text(self.disk.read(self.path))
            return [_Declared.model_validate(item) for item in raw]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            _log.warning("intents not readable", file=str(self.path), error=str(error))
            return []

    def save(self, intents: Sequence[Event[IntentDeclared]]) -> None:
        items = [intent.model_dump(mode="json") for intent in intents]
        replace_file(self.path, json.dumps(items, separators=(",", ":")).encode(), self.disk)
