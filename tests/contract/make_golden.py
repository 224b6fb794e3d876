"""Writes tests/contract/golden/<event>.v<version>.json for events that have none. Existing ones are history: to
change an event incompatibly, raise its VERSION and keep the old file's class; delete a file only before a release."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from samples import sample_of

from slackwater.bus.codec.cloudevents import encode
from slackwater.events.envelope import event_of
from slackwater.events.registry import BROADCASTS, EVENTS
from slackwater.events.rosters import no_roster

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for payload in (*EVENTS, *BROADCASTS):
        file = GOLDEN / f"{payload.TYPE}.v{payload.VERSION}.json"
        if file.exists():
            continue
        event = event_of(
            payload.from_document(sample_of(payload), no_roster),
            source="golden",
            time=datetime(2026, 1, 5, tzinfo=UTC),
            causedby="0195f3a0-0000-7000-8000-000000000000",
            traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            id=f"golden-{payload.TYPE}",
        )
        message = encode(event)
        document = {
            "subject": message.subject,
            "headers": dict(message.headers),
            "body": json.loads(message.body),
            "schema": payload.wire().model_json_schema(mode="validation"),
        }
        file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
