"""The last document of each writer on disk: what an agent goes on with that restarts while it is cut off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.agent.adapters.durable import replace_synced
from slackwater.events.envelope import Event
from slackwater.events.intent_declared import IntentDeclared
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
_Declared = Event[IntentDeclared]


@dataclass(frozen=True, slots=True)
class JsonIntents:
    """`<agent dir>/intents.json`, replaced as a whole. What cannot be read is no document: the agent then only lets go,
    as it does where it never had any."""

    path: Path

    def load(self) -> Sequence[Event[IntentDeclared]]:
        try:
            raw = json.loads(self.path.read_bytes())
            return [_Declared.model_validate(item) for item in raw]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, TypeError) as error:
            _log.warning("intents not readable", file=str(self.path), error=str(error))
            return []

    def save(self, intents: Sequence[Event[IntentDeclared]]) -> None:
        items = [one.model_dump(mode="json") for one in intents]
        replace_synced(self.path, json.dumps(items, separators=(",", ":")).encode())
