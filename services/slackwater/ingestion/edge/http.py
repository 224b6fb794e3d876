"""Route /v1/nodes/{name}/windows: a node's published usage by window, for as long as history is kept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

from slackwater.ingestion.domain.windowing import Window, WindowAmounts
from slackwater.ingestion.usecases.read_windows import ReadWindows
from slackwater.model.quantities import Resources
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

MOST, USUAL = 1440, 240
Name = Annotated[str, Path(min_length=1, max_length=253, pattern=r"^[^\x00-\x1f\x7f]+$")]
Moment = Annotated[datetime, Query(description="ISO 8601; UTC if it has no time zone.")]


class WindowPod(BaseModel):
    """A pod that was measured in the window. `usage` is its p95; null where it has no sample. The other fields allow
    selectors of policies to be evaluated after the pod has ended; labels are those of its last report.
    """

    uid: str
    name: str
    namespace: str
    workload: str
    tier: str
    qos: str
    priority: int
    labels: dict[str, str]
    request: Resources
    usage: Resources | None
    started_at: datetime


class WindowHostApp(BaseModel):
    """A host application that was measured in the window; `usage` is its p95."""

    name: str
    tier: str
    usage: Resources


class KeptWindow(BaseModel):
    """One window: p95 in milli-cores and bytes of the node, of the system (usage outside pods and host applications),
    and of each pod and host application.
    """

    node: str
    number: int
    start: datetime
    seconds: int
    reports: int
    gaps: int = Field(description="Number of reports that are known to be missing.")
    usage: Resources
    system: Resources | None
    pods: list[WindowPod]
    host_apps: list[WindowHostApp] = Field(
        default=[], description="Programs outside pods that the operator configured to be measured separately."
    )


class WindowListing(BaseModel):
    """One page."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    items: list[KeptWindow]
    continue_: datetime | None = Field(
        default=None, alias="continue", description="Pass as `since` to get the next page; null on the last page."
    )


def window_router(windows: ReadWindows) -> Routes:
    """Builds the read-only routes; `slackwater simulate --since` replays these windows."""
    router = Routes(prefix="/v1/nodes", tags=["nodes"])

    @router.get("/{name}/windows", role=Role.VIEWER, summary="The usage of a node by window, oldest first")
    async def list_windows(
        name: Name, since: Moment, until: Moment, limit: Annotated[int, Query(ge=1, le=MOST)] = USUAL
    ) -> WindowListing:
        """Returns the windows that began at or after `since` and ended by `until`. Empty for a node without reports."""
        page = await windows(name, _utc(since), _utc(until), limit)
        return WindowListing(items=[_view(window) for window in page.windows], continue_=page.behind)

    return router


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _view(window: Window) -> KeptWindow:
    return KeptWindow(
        node=window.node,
        number=window.number,
        start=window.start,
        seconds=window.seconds,
        reports=window.reports,
        gaps=window.gaps,
        usage=_p95(window.usage) or Resources(),
        system=None if window.system is None else _p95(window.system),
        pods=[
            WindowPod(
                uid=pod.uid,
                name=pod.name,
                namespace=pod.namespace,
                workload=pod.workload,
                tier=pod.tier.value,
                qos=pod.qos.value,
                priority=pod.priority,
                labels=pod.labels,
                request=pod.request,
                usage=_p95(amounts),
                started_at=pod.started_at,
            )
            for pod, amounts in window.pods
        ],
        host_apps=[
            WindowHostApp(name=app.name, tier=app.tier.value, usage=usage)
            for app in window.host_apps
            if (usage := _p95(app.usage))
        ],
    )


def _p95(amounts: WindowAmounts) -> Resources | None:
    return Resources(amounts.cpu.p95, amounts.memory.p95) if amounts.cpu.samples else None
