"""An example of a new kind: its model and its hooks. Its declaration is example/maintenance_window.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slackwater.model.errors import InvalidInput
from slackwater.resources.hooks import Hooks
from slackwater.resources.metadata import Part, Resource
from slackwater.resources.names import CLUSTER

Percent = Annotated[int, Field(ge=0, le=100)]


class MaintenanceWindowSpec(Part):
    """What is left out follows `default`."""

    node_pool: str | None = None
    drained_percent: Percent | None = Field(None, description="share of the nodes that may be drained at once")
    minutes: Annotated[int, Field(ge=1, le=1440)] | None = None


class MaintenanceWindow(Resource):
    """When nodes of a pool may be drained."""

    kind: Literal["MaintenanceWindow"] = "MaintenanceWindow"
    spec: MaintenanceWindowSpec

    @property
    def pool(self) -> str | None:
        return None if self.name == CLUSTER else self.spec.node_pool or self.name


class MaintenanceWindowHooks(Hooks[MaintenanceWindow, MaintenanceWindowSpec]):
    """A window comes to its own fields on top of the cluster's."""

    def first(self) -> MaintenanceWindow:
        return MaintenanceWindow.parse({"metadata": {"name": CLUSTER}, "spec": {"drainedPercent": 10, "minutes": 60}})

    def resolve(self, document: MaintenanceWindow, parent: MaintenanceWindowSpec | None) -> MaintenanceWindowSpec:
        own = document.spec.model_dump(exclude_none=True)
        found = document.spec if parent is None else parent.model_copy(update=own)
        if (found.drained_percent or 0) * (found.minutes or 0) > 100 * 60:
            raise InvalidInput("spec.minutes: drains the whole pool in an hour; lower it", field="spec.minutes")
        return found
