"""usage.reported: an agent's measurements since its last report. Telemetry: latest wins, a loss is a visible gap."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, Field

from slackwater.events.envelope import Payload, built
from slackwater.events.joined_pods import JoinedPods
from slackwater.events.measures import HostAppUsage, KnownBytes, PodUsage, Pressure, Usage, is_unknown
from slackwater.events.report_columns import (
    SHARED,
    InvalidColumns,
    RefaultRate,
    ReportColumns,
    Trigger,
    columns_of,
)
from slackwater.events.rosters import FindRoster, Roster, RosterMissing, roster_of
from slackwater.model.bounds import Count, Items, Moment, Name, Seconds
from slackwater.model.devices import DiskUse, LinkUse
from slackwater.model.placement_rules import Few
from slackwater.model.pods import Pod

LEAVE_TRIGGER: Final = "leave"


class UsageReported(Payload):
    """The usage of one node in one window. `boot_epoch` and `sequence` (from 1, no gaps) expose restarts and losses.

    `system_usage` is node minus all managed pods and host applications, floored at zero per sample; None if it could
    not be measured. `prod_pressure` is the pressure of all prod pods together. `disks` and `links` are averages over
    the window of the readable devices. `alone`: the agent was disconnected and decided by itself when it sent the
    report, so the service that decides for the node waits until the agent receives its leases again. `host_apps` and
    `alone` are omitted if empty or false. `prod_refault_bytes_per_second` is what prod pods read again per second of
    the file pages that were evicted from their page cache; omitted if unknown. `node_free_bytes` is memory that nothing
    uses, page cache neither, at `sampled_at`; omitted if unknown. `cpu_weights` are the weights of tiers that
    the agent read back from the kernel, if they put prod first; else omitted. `intent_declared_at` is the `declared_at`
    of ensurance's document that the agent holds, by which ensurance learns that the broker lost a newer one; omitted
    without a document. `failed_pods` are pods that have ended with a failure and are still listed by the API server:
    they use nothing, and are omitted if there are none. After a report with the trigger `leave` the node counts as lost
    at once, until a later report. `left_out` are the values of this report and of the node's description that no reader
    would accept, with what was sent instead, like `pod shop/web: request.cpu_milli: 16000000 is capped at 10000000`;
    omitted if there are none.

    This is the form that services use. It travels as columns that count by a roster (slackwater.events.report_columns):
    the bus takes it apart when it publishes, and joins it when it reads.
    """

    TYPE: ClassVar[str] = "usage.reported"
    STREAM: ClassVar[str] = "USAGE"
    FROM_AGENT: ClassVar[bool] = True
    WIRE: ClassVar[type[BaseModel]] = ReportColumns

    node: Name
    boot_epoch: Name
    sequence: Count
    sampled_at: Moment
    window_seconds: Seconds
    trigger: Trigger = "interval"
    dropped_reports: Count = 0
    node_usage: Usage
    system_usage: Usage | None = None
    node_pressure: Pressure = Pressure()
    prod_pressure: Pressure = Pressure()
    pods: Items[PodUsage] = ()
    disks: Items[DiskUse] = ()
    links: Items[LinkUse] = ()
    host_apps: Items[HostAppUsage] = Field(default=(), exclude_if=operator.not_)
    alone: bool = Field(default=False, exclude_if=operator.not_)
    prod_refault_bytes_per_second: RefaultRate | None = Field(default=None, exclude_if=is_unknown)
    node_free_bytes: KnownBytes = None
    cpu_weights: Literal["by-tier", "by-tier-idle"] | None = Field(default=None, exclude_if=is_unknown)
    intent_declared_at: Moment | None = Field(default=None, exclude_if=is_unknown)
    failed_pods: Items[Pod] = Field(default=(), exclude_if=operator.not_)
    left_out: Few[Name] = Field(default=(), exclude_if=operator.not_)

    def key(self) -> str:
        return self.node

    def shown(self) -> Self:
        return self.model_copy(update={"pods": tuple(self.pods)})

    def roster(self) -> Roster:
        """Returns the roster of this report's pods."""
        return roster_of([usage.pod for usage in self.pods], self.failed_pods)

    def columns(self, roster: Roster, slot: int | None) -> ReportColumns:
        """Returns the form that travels, with the roster in a slot; without a slot it carries its roster."""
        shared = {name: getattr(self, name) for name in SHARED}
        own = roster if slot is None else None
        return ReportColumns.model_construct(
            **shared,
            roster=roster.digest,
            roster_slot=slot or 0,
            pods=columns_of(self.pods),
            own_roster=own,
        )

    def body(self) -> str:
        """The JSON that travels where no roster was published: with the roster in it."""
        return self.columns(self.roster(), None).model_dump_json()

    @classmethod
    def joined(cls, columns: Mapping[str, Any], find: FindRoster) -> Self:
        """Returns the report of the fields of a ReportColumns. Raises RosterMissing, InvalidColumns."""
        roster = columns["own_roster"] or find(columns["node"], columns["roster"])
        if roster is None:
            raise RosterMissing(columns["node"], columns["roster"], columns["roster_slot"])
        if roster.digest != columns["roster"]:
            raise InvalidColumns("own_roster: not the roster that the report names")
        values = {name: columns[name] for name in SHARED}
        values["pods"] = JoinedPods(roster, columns["pods"])
        values["failed_pods"] = roster.failed_pods
        return built(cls, values)


def is_disconnected(report: UsageReported) -> UsageReported:
    """A copy of the report with `alone` set."""
    return report.model_copy(update={"alone": True})
