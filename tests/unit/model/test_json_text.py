"""JSON of others: a text that is nested deeply is damaged like any other, for every reader."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.agent.adapters.intents_file import JsonIntents
from slackwater.agent.adapters.journal_file import LinesJournal, claims_in
from slackwater.agent.adapters.ledger_file import LEDGER, JsonLedger, eviction_of
from slackwater.agent.adapters.linux.cpu_placement import static_managers
from slackwater.agent.adapters.linux.registry import PodRegistry
from slackwater.agent.adapters.placement_files import CHECKPOINT, PLACEMENTS, JsonPlacements, read_placements
from slackwater.cli.jsonpath import parse_template
from slackwater.koordinator.source_objects import json_object
from slackwater.model.errors import InvalidInput
from slackwater.model.json_text import parse_json_text
from slackwater.waterline.facts.eviction_marks import eviction_policies

DEEP = "[" * 100_000


def test_it_is_the_parser_with_one_error() -> None:
    assert parse_json_text(b'{"a": [1, null]}') == {"a": [1, None]}
    with pytest.raises(json.JSONDecodeError):
        parse_json_text("{")
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json_text(DEEP)


def test_files_of_the_agent_that_are_damaged_so_do_not_keep_it_from_starting(tmp_path: Path) -> None:
    for name in ("intents.json", LEDGER, "journal", CHECKPOINT, PLACEMENTS):
        (tmp_path / name).write_text(f"{DEEP}\n")
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "uid-1.json").write_text(DEEP)
    assert eviction_of(tmp_path, "uid-1") is None
    assert read_placements(tmp_path) is None
    assert claims_in(tmp_path / "journal") == 0
    assert JsonIntents(tmp_path / "intents.json").load() == []
    assert JsonLedger(tmp_path / LEDGER).load() == {}
    assert JsonPlacements(tmp_path).load() is None
    assert not list(LinesJournal(tmp_path / "journal").load().records())
    assert PodRegistry(tmp_path / "pods").entries() == {}


def test_annotations_and_files_of_a_kubelet_are_as_if_they_were_none(tmp_path: Path) -> None:
    assert eviction_policies(DEEP) == frozenset()
    with pytest.raises(ValueError, match="is not JSON: it is nested too deeply"):
        json_object(DEEP)
    (tmp_path / "cpu_manager_state").write_text(DEEP)
    assert static_managers(tmp_path) == ""


def test_a_filter_of_a_user_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="jsonpath"):
        parse_template("{.items[?(@.name==" + DEEP.replace("[", "{") + ")]}")
