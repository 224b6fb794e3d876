"""usage.windowed: the validated usage of one node in one aligned window. Durable; consumers fold it exactly once."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, Field

from slackwater.events.envelope import Payload, built
from slackwater.events.rosters import FindRoster
from slackwater.events.window_columns import SHARED, WindowColumns, WindowedPods, columns_of
from slackwater.events.windowed_usage import WindowedHostApp, WindowedPod, WindowedUsage
from slackwater.model.bounds import Count, Items, Mapped, Moment, Name, WindowSeconds


class UsageWindowed(Payload):
    """One window of a node. `number` = window_start // window_seconds, so that consumers can deduplicate.

    `tiers` has entries only for tiers with pods. `gaps` is the number of reports known to be missing from the window.
    `host_apps` is omitted if empty. Pods travel as columns (slackwater.events.window_columns), without their status and
    their rules of placement, which are in `pods.rostered`.
    """

    TYPE: ClassVar[str] = "usage.windowed"
    STREAM: ClassVar[str] = "WINDOWS"
    WIRE: ClassVar[type[BaseModel]] = WindowColumns

    node: Name
    number: Count
    window_start: Moment
    window_seconds: WindowSeconds
    node_usage: WindowedUsage
    system_usage: WindowedUsage | None
    tiers: Mapped[WindowedUsage]
    pods: Items[WindowedPod]
    reports: Count
    gaps: Count
    host_apps: Items[WindowedHostApp] = Field(default=(), exclude_if=operator.not_)

    def key(self) -> str:
        return self.node

    def shown(self) -> Self:
        return self.model_copy(update={"pods": tuple(self.pods)})

    def body(self) -> str:
        shared = {name: getattr(self, name) for name in SHARED}
        return WindowColumns.model_construct(**shared, pods=columns_of(self.pods)).model_dump_json()

    @classmethod
    def joined(cls, columns: Mapping[str, Any], find: FindRoster) -> Self:
        return built(cls, {**columns, "pods": WindowedPods(columns["pods"])})
