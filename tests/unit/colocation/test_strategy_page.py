"""The pages on colocation strategies, how-to and reference, say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from slackwater.colocation.settings import ColocationSettings
from slackwater.colocation.usecases.colocation_strategy import ColocationStrategy, default_text
from slackwater.offers.document import DEFAULTS, FIELDS, WITHOUT_EFFECT, strategy_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "set-a-colocation-strategy.md").read_text()
_, _, _SECTION = (ROOT / "docs" / "reference" / "resources.md").read_text().partition("\n## ColocationStrategy\n")
REFERENCE = dict(re.findall(r"^[|-] `(\w+)` (.*)$", _SECTION.partition("\n## ")[0], flags=re.M))
"""Lines of the reference by field of `spec`."""
SELECTION = {"nodePool", "nodeSelector", "precedence"}
EXAMPLE = (ROOT / "examples" / "colocation_strategy.yaml").read_text()


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_in_the_reference_with_its_default_and_what_is_allowed(name: str) -> None:
    one = FIELDS[name]
    row = REFERENCE[name]
    assert one.about in row
    assert one.default is None or default_text(one.default) in row
    assert all(str(value) in row for value in one.schema.get("enum", ()))
    bounds = [value for key, value in one.schema.items() if key.endswith(("imum", "Minimum", "Maximum"))]
    assert all(str(bound) in row or f"{bound:g}" in row for bound in bounds)


def test_the_reference_names_no_other_fields() -> None:
    assert REFERENCE.keys() == FIELDS.keys() | SELECTION
    assert "(../reference/resources.md#colocationstrategy)" in PAGE


def test_the_fields_without_effect_are_those_that_the_page_says_have_none() -> None:
    (listed,) = re.findall(r"without effect here: (.*?)\.\n\n", PAGE, flags=re.S)
    assert set(re.findall(r"`(\w+)`", listed)) == WITHOUT_EFFECT
    others = {
        "metricAggregateDurationSeconds": 60,
        "metricReportIntervalSeconds": 10,
        "metricAggregatePolicy": ["1m"],
        "metricMemoryCollectPolicy": "usageWithPageCache",
        "extensions": {"a": 1},
    }
    assert others.keys() == WITHOUT_EFFECT
    assert strategy_of({**DEFAULTS, **others}) == strategy_of(DEFAULTS)


def test_the_example_is_the_file_is_short_and_is_allowed() -> None:
    (shown,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.S)
    assert shown == EXAMPLE.split("\n", 1)[1]
    assert len(shown.splitlines()) <= 10
    assert ColocationStrategy.parse(yaml.safe_load(EXAMPLE)).metadata.name == "web"


def test_every_setting_of_the_first_document_is_named() -> None:
    told = {name.lower() for name in re.findall(r"`(?:SLACKWATER_COLOCATION|…)_([A-Z_]+)`", PAGE)}
    apart = {"age_check_seconds", "full_pass_seconds"}
    assert told == ColocationSettings.model_fields.keys() - apart
