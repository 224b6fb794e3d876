"""The reference page of quotas names fields, metrics and columns that exist, and leaves no word of the ledger out."""

from __future__ import annotations

import re
from pathlib import Path

from slackwater.cli.offline_services import every_metric
from slackwater.events.quota_accounted import AccountedQuota
from slackwater.fairshare.claims import TRANSITIONS, ReclaimReason
from slackwater.fairshare.debts import QuotaAccounts
from slackwater.quota.edge.tree_models import QuotaNode

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "quotas.md").read_text()
WORDS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| [a-z ]+ \| `[a-z_]+` \|", line)]
PART = (ROOT / "services" / "slackwater" / "console" / "edge" / "templates" / "quotas_part.html").read_text()


def test_every_word_of_the_ledger_has_one_row_and_one_field() -> None:
    fields = {row[1].strip("`") for row in WORDS}
    assert fields == set(QuotaAccounts.__match_args__) - {"quota"}
    assert fields <= QuotaNode.model_fields.keys()
    assert fields <= AccountedQuota.model_fields.keys()
    assert [row[0].replace(" ", "_") for row in WORDS] == [row[1].strip("`") for row in WORDS]


def test_its_metrics_and_columns_exist() -> None:
    known = {metric.name for metric in every_metric()}
    named = set(re.findall(r"slackwater_quota_\w+", PAGE))
    assert named
    assert named <= known
    for row in WORDS:
        column = row[3].split(",")[0]
        assert column == "over Runtime" or f'<th scope="col" class="num">{column}</th>' in PART


def test_its_states_and_reasons_are_those_of_claims() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| `\w+`( \||, `)", line)]
    said = {
        state: set(re.findall(r"`(\w+)`", row[2]))
        for row in rows
        if len(row) == 3
        for state in re.findall(r"`(\w+)`", row[0])
    }
    assert said == {state.value: {after.value for after in following} for state, following in TRANSITIONS.items()}
    assert all(f"`{reason.value}`" in PAGE for reason in ReclaimReason)
