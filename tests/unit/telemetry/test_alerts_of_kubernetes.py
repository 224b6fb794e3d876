"""Alerts on the service kubernetes: when they fire, with which labels, and when they must keep quiet."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from promql_machine import Labels, Series
from test_alerts_fire import fired, named

START, MINUTE = 600, 60
Drawn = Mapping[tuple[str, Labels], Series]


def from_start(value: float) -> Series:
    return lambda now: value if now >= START else 0.0


def counted(per_minute: float) -> Series:
    return lambda now: max(0, now - START) * per_minute / MINUTE


def test_a_missing_right_is_named_and_one_given_back_is_not() -> None:
    name = "SlackwaterKubernetesRightMissing"
    drawn = {
        ("slackwater_kubernetes_missing_rights", named(right="patch nodes/status")): from_start(1),
        ("slackwater_kubernetes_missing_rights", named(right="list pods")): lambda now: float(now < START + 30),
    }
    assert set(fired(name, drawn, START + 2 * MINUTE)) == {named(right="patch nodes/status")}


@pytest.mark.parametrize(("per_minute", "fires"), [(84, True), (4, False)])
def test_a_server_that_is_away_fires_and_a_cut_watch_now_and_then_does_not(per_minute: float, fires: bool) -> None:
    series = ("slackwater_kubernetes_interruptions_total", named(reason="unavailable", kind="pods"))
    assert bool(fired("SlackwaterKubernetesApiServerUnreachable", {series: counted(per_minute)}, START + 600)) is fires


@pytest.mark.parametrize(("reason", "fires"), [("kind_not_served", True), ("unavailable", False)])
def test_a_kind_that_is_not_served_fires_by_its_name(reason: str, fires: bool) -> None:
    series = ("slackwater_kubernetes_interruptions_total", named(reason=reason, kind="autonomies"))
    names = {named(kind="autonomies")} if fires else set()
    assert set(fired("SlackwaterKubernetesKindMissing", {series: counted(12)}, START + 600)) == names


@pytest.mark.parametrize("amounts", [0, 2])
def test_another_writer_fires(amounts: int) -> None:
    series = ("slackwater_kubernetes_foreign_resources", named())
    assert bool(fired("SlackwaterKubernetesForeignWriter", {series: from_start(amounts)}, START + 900)) is bool(amounts)


@pytest.mark.parametrize(("skew", "fires"), [(30.0, True), (-30.0, True), (1.5, False), (-1.5, False)])
def test_clocks_that_differ_fire_in_both_directions(skew: float, fires: bool) -> None:
    series = ("slackwater_kubernetes_clock_skew_seconds", named())
    assert bool(fired("SlackwaterKubernetesClockSkew", {series: from_start(skew)}, START + 300)) is fires


def test_an_old_definition_and_a_restored_server_name_the_kind() -> None:
    outdated = "slackwater_kubernetes_document_status_refusals_total"
    drawn = {(outdated, named(kind="Autonomy", reason="definition_outdated")): counted(1)}
    assert set(fired("SlackwaterKubernetesDefinitionOutdated", drawn, START + 300)) == {named(kind="Autonomy")}
    lists = "slackwater_kubernetes_lists_total"
    drawn = {
        (lists, named(kind="pods", reason="restored")): from_start(1),
        (lists, named(kind="nodes", reason="expired")): from_start(1),
    }
    assert set(fired("SlackwaterKubernetesRestored", drawn, START + 120)) == {named(kind="pods")}
