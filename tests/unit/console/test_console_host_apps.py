"""Host applications in the read model: apart from the system, yet in the same layer of every picture."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tests.support.reports import GIB, host_app, pod_usage, report

from slackwater.cli.describe import _usage
from slackwater.console.adapters.postgres import _USAGE, _latest_row
from slackwater.console.domain.views import HostAppUsed
from slackwater.console.edge.rpc_messages import _usage as usage_message
from slackwater.console.usecases.pictures import used_by_layer
from slackwater.console.usecases.translate import usage_point
from slackwater.events.envelope import event_of
from slackwater.model.quantities import Resources
from slackwater.model.tiers import Tier

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
DATA = report(
    "n", 1, NOW, pods=[pod_usage("p")], host_apps=[host_app("nginx", cpu_milli=300), host_app("yarn", Tier.BATCH)]
)
POINT = usage_point(event_of(DATA, source="agent", time=NOW))


def test_a_report_becomes_a_point_with_each_of_them() -> None:
    assert POINT.host_apps == (
        HostAppUsed("nginx", "prod", Resources(300, GIB // 8)),
        HostAppUsed("yarn", "batch", Resources(200, GIB // 8)),
    )
    assert POINT.system == Resources(100, GIB)
    assert POINT.beside_pods == Resources(600, GIB + GIB // 4)


def test_pictures_and_levels_show_them_with_the_system() -> None:
    assert used_by_layer(POINT) == {"prod": 500, "system": 600}
    amounts = _latest_row(POINT, [], "{}")["amounts"].strip("{}").split(",")
    assert amounts[4:6] == ["600", str(GIB + GIB // 4)]


def test_grpc_has_the_usage_outside_pods_as_before() -> None:
    message = usage_message(POINT)
    assert (message.system.cpu_milli, message.system.memory_bytes) == (600, GIB + GIB // 4)
    assert not usage_message(replace(POINT, system=None)).HasField("system")


def test_a_system_that_was_not_measured_is_what_the_tiers_leave_and_no_notch() -> None:
    unknown = replace(POINT, system=None)
    assert unknown.beside_pods == Resources(500, 3 * GIB // 4)
    assert used_by_layer(replace(unknown, host_apps=())) == {"prod": 500, "system": 500}


def test_a_point_of_before_there_were_any_is_read_as_one_without() -> None:
    old = {name: value for name, value in _USAGE.dump_python(POINT, mode="json").items() if name != "host_apps"}
    assert _USAGE.validate_python(old).host_apps == ()


def test_describe_names_each_with_its_tier() -> None:
    lines = _usage(_USAGE.dump_python(POINT, mode="json"), NOW)
    assert "  nginx (host, prod):     0.3 cores, 128Mi" in lines
