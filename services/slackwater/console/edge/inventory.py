"""The pages of pods, workloads, pools and policies."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from fastapi import Depends, Query
from fastapi.responses import HTMLResponse

from slackwater.console.domain.tables import TableQuery
from slackwater.console.edge.parameters import number_of
from slackwater.console.edge.templates_environment import Pages
from slackwater.console.ports import ReadQueries
from slackwater.console.usecases.inventory import PodQuery, pod_list, pool_list, workload_list
from slackwater.console.usecases.policy_list import policy_list
from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import Tier
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

MOST_PAGES = 1000
TIERS = tuple(str(tier) for tier in Tier)
Name = Annotated[str, Query(max_length=253)]


@dataclass(frozen=True, slots=True)
class PodForm:
    """The filter form of pods and workloads as submitted."""

    name: Name = ""
    tier: Annotated[str, Query(max_length=10)] = ""
    node: Name = ""
    pool: Name = ""
    namespace: Name = ""
    workload: Name = ""
    throttled: bool = False

    def question(self) -> PodQuery:
        """Raises InvalidInput for a tier that does not exist."""
        if self.tier and self.tier not in TIERS:
            raise InvalidInput(f"tier: {self.tier!r} is not a tier; allowed: {', '.join(TIERS)}", field="tier")
        return PodQuery(
            self.name.strip(),
            self.tier,
            self.node.strip(),
            self.pool.strip(),
            self.namespace.strip(),
            self.workload.strip(),
            self.throttled,
        )

    @property
    def given(self) -> dict[str, str]:
        """The filters that have a value, as query parameters."""
        return {name: "true" if value is True else value for name, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class TableForm:
    """Sort order and page number as submitted."""

    sort: Annotated[str, Query(max_length=60)] = ""
    page: str = "1"

    def question(self) -> TableQuery:
        """Raises InvalidInput."""
        return TableQuery(self.sort, number_of(self.page, "page", MOST_PAGES))


Pods = Annotated[PodForm, Depends()]
Order = Annotated[TableForm, Depends()]


def inventory_router(reads: ReadQueries, clock: Clock) -> Routes:
    router = Routes(include_in_schema=False)
    pages = Pages()

    @router.get("/pods", role=Role.VIEWER)
    @pages.errors_as_pages
    async def pods(form: Pods, order: Order, part: bool = False) -> HTMLResponse:
        view = await pod_list(reads, form.question(), order.question(), clock.now())
        return pages("pods_part.html" if part else "pods.html", page=view, query=form.given, tiers=TIERS)

    @router.get("/workloads", role=Role.VIEWER)
    @pages.errors_as_pages
    async def workloads(form: Pods, order: Order, part: bool = False) -> HTMLResponse:
        view = await workload_list(reads, form.question(), order.question(), clock.now())
        return pages("workloads_part.html" if part else "workloads.html", page=view, query=form.given, tiers=TIERS)

    @router.get("/pools", role=Role.VIEWER)
    @pages.errors_as_pages
    async def pools(order: Order, part: bool = False) -> HTMLResponse:
        view = await pool_list(reads, order.question(), clock.now())
        return pages("pools_part.html" if part else "pools.html", page=view, query={})

    @router.get("/policies", role=Role.VIEWER)
    @pages.errors_as_pages
    async def policies(order: Order, part: bool = False) -> HTMLResponse:
        view = await policy_list(reads, order.question(), clock.now())
        return pages("policies_part.html" if part else "policies.html", page=view, query={})

    return router
