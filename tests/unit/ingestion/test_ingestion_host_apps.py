"""Host applications on their way through ingestion: validated, stored, and published with their window."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.clock import EPOCH
from tests.support.reports import GIB, distribution, host_app, report

from slackwater.events.measures import HostAppUsage, Usage
from slackwater.events.usage_windowed import UsageWindowed
from slackwater.ingestion.adapters.rows import NODE_USAGE, apps_of, apps_text, history_rows, node_usage
from slackwater.ingestion.domain.reports import Arrival, HistoryRow, KnownNode
from slackwater.ingestion.domain.validation import Refusal, RefusedReport, ReportLimits, judge
from slackwater.ingestion.domain.windowing import close_windows
from slackwater.ingestion.edge.http import _view
from slackwater.ingestion.usecases.close_windows import _event
from slackwater.ingestion.usecases.report_mapping import report_from
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.mark.parametrize(
    ("apps", "reason"),
    [
        ([host_app("a"), host_app("a")], Refusal.MALFORMED),
        ([host_app("")], Refusal.MALFORMED),
        ([host_app("a\nb")], Refusal.MALFORMED),
        ([host_app("x" * 513)], Refusal.MALFORMED),
        ([host_app("a", cpu_milli=8001)], Refusal.ABSURD),
        ([host_app("a", cpu_milli=-1)], Refusal.NEGATIVE),
        ([HostAppUsage("a", Tier.PROD, Usage(distribution(1), distribution(17 * GIB)))], Refusal.ABSURD),
        ([host_app("a"), host_app("b", Tier.BATCH)], None),
    ],
)
def test_what_cannot_be_is_refused_with_its_name(apps: list[HostAppUsage], reason: Refusal | None) -> None:
    told = report_from(report("n", 1, EPOCH, host_apps=apps))
    verdict = judge(Arrival(told, "n", EPOCH), KnownNode("n", Resources(4000, 8 * GIB)), ReportLimits(30, 900))
    assert (verdict.reason if isinstance(verdict, RefusedReport) else None) is reason


def rows(*told: list[HostAppUsage]) -> list[HistoryRow]:
    reports = [
        report("n", number + 1, EPOCH + timedelta(seconds=5 * (number + 1)), host_apps=apps)
        for number, apps in enumerate(told)
    ]
    return [HistoryRow(report_from(one), EPOCH) for one in reports]


def test_a_window_averages_each_application_over_the_reports_that_contain_it() -> None:
    found = rows(
        [host_app("nginx", cpu_milli=100)],
        [host_app("nginx", Tier.MID, cpu_milli=300), host_app("yarn", Tier.BATCH)],
        [],
    )
    [window] = close_windows(found, 60)
    assert [(app.name, app.tier, app.usage.cpu.p95, app.usage.cpu.samples) for app in window.host_apps] == [
        ("nginx", Tier.MID, 300, 10),
        ("yarn", Tier.BATCH, 200, 5),
    ]
    told = _event(window, EPOCH, TRACE).data
    assert [(app.name, app.usage.cpu_p95_milli) for app in told.host_apps] == [("nginx", 300), ("yarn", 200)]
    assert UsageWindowed.model_validate_json(told.model_dump_json()) == told
    assert [(app.name, app.tier, app.usage.cpu_milli) for app in _view(window).host_apps] == [
        ("nginx", "mid", 300),
        ("yarn", "batch", 200),
    ]


def test_without_any_the_event_and_the_row_say_nothing_of_them() -> None:
    [row] = rows([])
    [window] = close_windows([row], 60)
    assert "host_apps" not in _event(window, EPOCH, TRACE).data.model_dump_json()
    assert dict(zip(NODE_USAGE, node_usage(row), strict=True))["host_apps"] is None


def test_a_row_holds_them_as_text_and_gives_them_back() -> None:
    [row] = rows([host_app("nginx"), host_app("yarn", Tier.BATCH)])
    stored = dict(zip(NODE_USAGE, node_usage(row), strict=True))
    assert stored["host_apps"].startswith('[["nginx","prod",[200,')
    [back] = history_rows([stored], (), {})  # type: ignore[list-item]  # a mapping by column, as a row is
    assert back == replace(row, report=replace(row.report, pods=()))
    assert apps_of(apps_text(row.report.host_apps)) == row.report.host_apps
