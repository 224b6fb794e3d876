"""The pages: rendered here, kept live by server-sent events that make htmx fetch the changing part again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from fastapi import Response
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from markupsafe import Markup

from slackwater.console.domain.drawing.stacks import Layer
from slackwater.console.domain.words import amount, bare, cores, outcome, short, shortfall
from slackwater.console.ports import Reads
from slackwater.console.usecases import pages
from slackwater.model.errors import NotFound
from slackwater.model.quantities import format_memory
from slackwater.model.time import Clock
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import Routes

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
_HERE = Path(__file__).parent
_STATIC = _HERE.parent / "static"
_FILES = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "icon.svg": "image/svg+xml",
    "vendor/htmx-2.0.11.min.js": "text/javascript",
    "vendor/htmx-ext-sse-2.2.4.min.js": "text/javascript",
    "vendor/idiomorph-ext-0.8.0.min.js": "text/javascript",
}
"""All that is served besides pages; nothing is ever fetched from elsewhere."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def html_router(reads: Reads, clock: Clock) -> Routes:
    """The pages and their static files. Building it reads nothing; templates are loaded on first use."""
    router = Routes(include_in_schema=False)
    templates = _templates()

    def page(name: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(templates.get_template(name).render(**values), headers=_HEADERS)

    @router.get("/", role=Role.VIEWER)
    async def fleet(part: bool = False) -> HTMLResponse:
        view = await pages.fleet_page(reads, clock.now())
        return page("fleet_part.html" if part else "fleet.html", page=view)

    @router.get("/nodes", role=Role.VIEWER)
    async def all_nodes() -> RedirectResponse:
        return RedirectResponse("/")

    @router.get("/nodes/{name}", role=Role.VIEWER)
    async def node(name: str, part: bool = False) -> HTMLResponse:
        try:
            view = await pages.node_page(reads, name, clock.now())
        except NotFound as error:
            return _not_found(templates, error)
        return page("node_part.html" if part else "node.html", page=view)

    @router.get("/decisions/{id}", role=Role.VIEWER)
    async def decision(id: str, part: bool = False) -> HTMLResponse:  # noqa: A002 - the path parameter is called id
        try:
            view = await pages.decision_page(reads, id, clock.now())
        except NotFound as error:
            return _not_found(templates, error)
        return page("decision_part.html" if part else "decision.html", page=view)

    @router.get("/static/console/{name:path}", role=Role.VIEWER)
    async def static(name: str) -> Response:
        if name not in _FILES:
            raise NotFound(f"{name!r} is not a file of the console")
        headers = {"Cache-Control": "max-age=3600" if name.startswith("vendor/") else "no-cache"}
        return FileResponse(_STATIC / name, media_type=_FILES[name], headers=headers)

    return router


def _not_found(templates: jinja2.Environment, error: NotFound) -> HTMLResponse:
    text = templates.get_template("missing.html").render(message=error.message)
    return HTMLResponse(text, status_code=404, headers=_HEADERS)


def _templates() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        cores=_cores,
        bytes=lambda count: NOTHING if count is None else format_memory(count),
        amount=amount,
        bare=bare,
        short=short,
        outcome=outcome,
        shortfall=shortfall,
        percent=_percent,
        reading=_reading,
        when=_when,
        ago=_ago,
        words=lambda text: str(text).replace("_", " "),
        drawing=Markup,  # the drawings escape their own text
    )
    found.globals.update(signed=_signed, parts=tier_parts)
    return found


def _cores(milli: int | None, digits: int = 1) -> str:
    """Cores with a fixed number of digits, so that columns of them line up."""
    return NOTHING if milli is None else f"{milli / 1000:.{digits}f}"


def _percent(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value * 100:.{digits}f} %"


def _reading(value: float | int | str | None) -> str:
    """An input's value; floats to four digits (the record has them all)."""
    if value is None:
        return NOTHING
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _when(at: datetime | None) -> Markup:
    if at is None:
        return Markup("\N{EN DASH}")
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S}", f"{utc:%H:%M:%S}"
    )


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "never"
    seconds = max(0, int((now - at).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def _signed(value: int, unit: str) -> str:
    """With a true minus sign, and a plus where it is a gain."""
    if unit.startswith("milli"):
        return ("+" if value > 0 else MINUS if value < 0 else "") + cores(abs(value))
    return ("+" if value > 0 else MINUS if value < 0 else "") + amount(abs(value), unit)


@dataclass(frozen=True, slots=True)
class TierPart:
    """A line of a legend."""

    name: str
    title: str
    milli: int


_TITLES = {
    "system": "System",
    "prod": "Prod",
    "mid": "Mid",
    "batch": "Batch",
    "free": "Free",
    "offered": "Offered, unused",
    "margin": "Margin",
}


def tier_parts(layers: tuple[Layer, ...]) -> list[TierPart]:
    """The legend of a stack, from the top down, without tiers that are empty (but always with the offer)."""
    shown = [layer for layer in layers if layer.amount or layer.name in ("prod", "batch", "offered", "margin")]
    return [TierPart(layer.name, _TITLES[layer.name], layer.amount) for layer in reversed(shown)]
