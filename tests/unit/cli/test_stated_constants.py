"""Numbers that pages state in running text are those of the code: defaults, bounds, periods."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from slackwater.agent.usecases.guard_disconnected import DEADLINE_SECONDS
from slackwater.bus.access import floods
from slackwater.bus.consume import dead_letter_store
from slackwater.console.settings import ConsoleSettings
from slackwater.ensurance.settings import EnsuranceSettings
from slackwater.fairshare.arbitration_plan import ArbitrationSettings
from slackwater.ingestion.settings import IngestionSettings
from slackwater.model.bounds import MOST_ITEMS
from slackwater.offers.strategy import Strategy
from slackwater.peaks.port import HORIZON_SECONDS
from slackwater.quota.settings import QuotaSettings
from slackwater.runtime import yaml_files
from slackwater.runtime.authority import CERTIFICATE_DAYS
from slackwater.runtime.settings import HttpSettings
from slackwater.waterline.loop.feedback import LoopPolicy

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20


def default(settings: Any, field: str) -> Any:
    return settings.model_fields[field].default


STATED: list[tuple[str, str, float]] = [
    ("concepts.md", r"\*\*Window\*\*: (\d+) s of a node's reports", default(IngestionSettings, "window_seconds")),
    ("concepts.md", r"where they do not suffice for (\d+) s", LoopPolicy().quota_after_seconds),
    ("glossary.md", r"\*\*history\*\*: reports stored for (\d+) days", default(IngestionSettings, "retention_days")),
    ("glossary.md", r"stale \((\d+) intervals\)", default(IngestionSettings, "stale_intervals")),
    ("glossary.md", r"or lost \((\d+) s\)", default(IngestionSettings, "lost_seconds")),
    ("concepts/predictions.md", r"need of the next (\d+) hours", HORIZON_SECONDS / 3600),
    ("concepts/quotas.md", r"it has waited for (\d+) minutes", ArbitrationSettings().starvation_s / 60),
    ("concepts/quotas.md", r"a runtime below used after (\d+) s", default(QuotaSettings, "reclaim_delay_seconds")),
    ("concepts/waterlines.md", r"within its deadline \((\d+) s\)", DEADLINE_SECONDS),
    ("concepts/waterlines.md", r"CLOSING_SECONDS`, (\d+) s", default(EnsuranceSettings, "closing_seconds")),
    ("concepts/moves.md", r"decisions (\d+) days", default(ConsoleSettings, "decision_retention_seconds") / 86_400),
    ("how-to/ask-why.md", r"kept for (\d+) days", default(ConsoleSettings, "decision_retention_seconds") / 86_400),
    (
        "how-to/read-offers.md",
        r"Offers are kept for (\d+) hours",
        default(ConsoleSettings, "usage_retention_seconds") / 3600,
    ),
    ("how-to/read-offers.md", r"safety_margin.*?(\d+) % of", 100 - Strategy().cpu_reclaim_threshold_percent),
    ("how-to/deploy.md", r"broker certificate \((\d+) days\)", CERTIFICATE_DAYS),
    ("how-to/secure.md", r"headers have (\d+) s each", default(HttpSettings, "header_seconds")),
    ("how-to/secure.md", r"a body (\d+) s, however", default(HttpSettings, "body_seconds")),
    ("how-to/secure.md", r"idle connection is closed after (\d+) s", default(HttpSettings, "idle_seconds")),
    ("how-to/secure.md", r"more than ([\d,]+) messages or \d+ MiB at once", floods.MESSAGES_AT_ONCE),
    ("how-to/secure.md", r"more than [\d,]+ messages or (\d+) MiB at once", floods.BYTES_AT_ONCE / MIB),
    ("how-to/secure.md", r"then (\d+) or \d+ MiB a second", 1 / floods.MESSAGES_EVERY_SECONDS),
    ("how-to/secure.md", r"then \d+ or (\d+) MiB a second", 1 / floods.BYTES_EVERY_SECONDS / MIB),
    ("how-to/secure.md", r"connection for (\d+) s, twice", floods.HOLD_SECONDS),
    ("how-to/secure.md", r"within an hour, up to (\d+) minutes", floods.MOST_HOLD_SECONDS / 60),
    ("how-to/secure.md", r"64 levels, ([\d,]+)\s+items in a list", MOST_ITEMS),
    ("how-to/secure.md", r"is given: at most (\d+) MiB", yaml_files.MOST_BYTES / MIB),
    ("how-to/secure.md", r"MiB, ([\d,]+) keys and values", yaml_files.MOST_VALUES),
    ("how-to/secure.md", r"keys and values, (\d+) levels", yaml_files.MOST_LEVELS),
    ("how-to/secure.md", r"numbers of (\d+) characters", yaml_files.MOST_DIGITS),
    ("how-to/runbook.md", r"then one per (\d+) s", dead_letter_store.LETTER_SECONDS),
    ("how-to/runbook.md", r"connection for (\d+) s to 10 minutes", floods.HOLD_SECONDS),
    ("how-to/simulate-a-strategy.md", r"WINDOW_SECONDS`, (\d+)\)", default(IngestionSettings, "window_seconds")),
    ("how-to/simulate-a-strategy.md", r"RETENTION_DAYS` \((\d+)\)", default(IngestionSettings, "retention_days")),
]
"""Page, the text with the number, and the number of the code."""


@pytest.mark.parametrize(("page", "text", "value"), STATED)
def test_a_page_states_the_number_of_the_code(page: str, text: str, value: float) -> None:
    shown = re.findall(text, (ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert shown, f"{page} does not say it any more: take the line out, or find where it is said now"
    assert {float(number.replace(",", "")) for number in shown} == {round(value, 6)}
