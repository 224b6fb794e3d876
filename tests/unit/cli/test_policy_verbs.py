"""apply, diff, get, describe and delete of PredictPolicy documents, against the routes of prediction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fastapi import APIRouter
from policy_scene import Replica
from served_routes import Do, doing, served
from tests.support.resources import MemoryResourceStore

from slackwater.prediction.edge.predictor_routes import predictor_router
from slackwater.runtime.resource_routes import resource_router

GOLD = """
apiVersion: slackwater.io/v1alpha1
kind: PredictPolicy
metadata: {name: gold}
spec:
  violationRate: 0.01
  cadence: {checkPredictionIntervalSeconds: 5}
"""


@pytest.fixture
def url() -> Iterator[str]:
    async def routers() -> list[APIRouter]:
        replica = await Replica(MemoryResourceStore()).open()
        return [resource_router(replica.change), predictor_router(replica.catalogue)]

    with served(routers) as found:
        yield found


@pytest.fixture
def do(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    return doing(url, tmp_path, monkeypatch)


def test_a_policy_is_tried_made_seen_and_removed(do: Do) -> None:
    assert do("apply", GOLD, "--dry-run").stdout == "predictpolicy/gold would be created\n"
    assert do("diff", GOLD).exit_code == 3
    assert do("apply", GOLD).stdout == "predictpolicy/gold created\n"
    assert do("apply", GOLD).stdout == "predictpolicy/gold unchanged\n"
    assert do("diff", GOLD).exit_code == 0
    changed = GOLD.replace("0.01", "0.02")
    assert do("diff", changed).stdout == "predictpolicy/gold spec.violationRate: 0.01 -> 0.02\n"
    assert do("apply", changed).stdout == "predictpolicy/gold configured\n"
    lines = do("get", "predictpolicies").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["default", "*"], ["gold", "gold"]]
    assert lines[2].split()[2:] == ["workload-profile", "0.02", "workload-profile", "0.02", "2", "in", "force"]
    assert do("delete", GOLD, "--dry-run").stdout == "predictpolicy/gold would be deleted\n"
    assert do("delete", GOLD).stdout == "predictpolicy/gold deleted\n"
    again = do("delete", GOLD)
    assert (again.exit_code, again.stderr) == (0, "predictpolicy/gold does not exist\n")


def test_a_description_says_what_a_policy_comes_to_and_what_of_it_is_its_own(do: Do) -> None:
    do("apply", GOLD)
    lines = do("describe", "predictpolicy", "gold").stdout.splitlines()
    assert "Generation:  1, in force" in lines
    assert "CPU:         workload-profile" in lines
    assert "  violation_rate = 0.01" in lines
    assert "  checkPredictionIntervalSeconds:   5" in lines
    assert "  reportingIntervalSeconds:         60      (from above)" in lines
    assert "Protect LSR: no (from above)" in lines


def test_what_get_prints_can_be_applied(do: Do) -> None:
    do("apply", GOLD)
    shown = do("get", "predictpolicy/gold", "-o", "yaml").stdout
    assert yaml.safe_load(shown)["status"]["observedGeneration"] == 1
    assert do("apply", shown).stdout == "predictpolicy/gold unchanged\n"


@pytest.mark.parametrize(
    ("verb", "text", "said"),
    [
        ("apply", GOLD.replace("violationRate: 0.01", "models: {cpu: {name: prophet}}"), "'prophet' is unknown"),
        ("apply", GOLD.replace("0.01", "7"), "violationRate"),
        ("delete", GOLD.replace("gold", "default"), "every pool without its own follows it"),
        ("delete", "kind: NodeQOS\nmetadata: {name: default}\n", "cannot be deleted"),
    ],
)
def test_a_refusal_is_one_line_that_says_why(do: Do, verb: str, text: str, said: str) -> None:
    done = do(verb, text)
    assert done.exit_code != 0
    assert said in done.stderr
    assert done.stdout == ""


def test_models_are_shown_with_their_settings(do: Do) -> None:
    names = [line.split()[0] for line in do("get", "predictors", "--no-headers").stdout.splitlines()]
    assert "workload-profile" in names
    assert "histogram" in names
    lines = do("describe", "predictor/nsigma-v1").stdout.splitlines()
    assert lines[3] == "Rate:     violationRate cannot be stated"
    assert any(line.startswith("sigmas ") and "number 0..1000" in line for line in lines)
    found = json.loads(do("get", "predictor", "workload-profile", "-o", "json").stdout)
    assert found["settings_schema"]["properties"]["violation_rate"]["description"]


def test_resources_without_events_cannot_be_watched(do: Do) -> None:
    done = do("get", "predictpolicies", "-w")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "predictpolicies cannot be watched" in done.stderr
