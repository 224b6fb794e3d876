"""Renders views as HTML: the template environment and its filters. Numbers carry units, times are UTC."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

from slackwater.charts.bars import share_bar
from slackwater.charts.stacks import StackLayer
from slackwater.charts.units import amount, bare, cores, gibibytes, percent, seconds
from slackwater.console.domain.formatting import outcome, short, shortfall
from slackwater.console.domain.marks import css_of_row
from slackwater.console.usecases.pictures import episode_href
from slackwater.decisions.effects import pods_text
from slackwater.model.errors import InvalidInput, NotFound, Unavailable
from slackwater.model.quantities import format_memory

TREE = "quota:"
"""Before the tree of a quota, where a record is about a tree and not about a node."""
NOTHING = "\N{EN DASH}"
LONG_NAME = 32
"""Longest name, in letters, on one line; a longer one is wrapped, because it would push the numbers out of the
table.
"""
LONG_VALUE = 200
"""Most letters of a field's value in a table."""
MINUS = "\N{MINUS SIGN}"


Endpoint = Callable[..., Awaitable[HTMLResponse]]
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def place_href(node: str) -> str:
    """The page of what a record is about: a node, or the tree of a quota."""
    if node.startswith(TREE):
        tree = node.removeprefix(TREE)
        return "/quotas" if tree == "default" else f"/quotas?{urlencode({'tree': tree})}"
    return f"/nodes/{quote(node, safe='')}"


class Pages:
    """Templates and the common headers of pages. Building it reads nothing; templates are loaded on first use."""

    def __init__(self) -> None:
        self._templates = environment()

    def __call__(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:
        text = self._templates.get_template(name).render(**values)
        return HTMLResponse(text, status_code=status, headers=_HEADERS)

    def errors_as_pages(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint whose errors are rendered as pages: not found, unavailable, invalid input."""

        @wraps(endpoint)
        async def answer(*args: Any, **values: Any) -> HTMLResponse:
            try:
                return await endpoint(*args, **values)
            except NotFound as error:
                return self("trouble.html", status=404, title="Not found", message=error.message)
            except InvalidInput as error:
                return self("trouble.html", status=400, title="Not understood", message=error.message)
            except Unavailable as error:
                return self("trouble.html", status=503, title="Not available", message=error.message)

        return answer


def environment() -> jinja2.Environment:
    jinja_environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja_environment.filters.update(
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
        since=_since,
        stamp=_stamp,
        number=_number,
        seconds=lambda value: NOTHING if value is None else seconds(value),
        gib=_gib,
        whole_gib=lambda count: NOTHING if count is None else gibibytes(count),
        whole_cores=lambda milli: NOTHING if milli is None else cores(milli),
        span=_span,
        capitalize_first=lambda text: text[:1].upper() + text[1:],
        mark=css_of_row,
        pods=pods_text,
        place=place_href,
        named=_named,
        value=_value,
        words=lambda text: str(text).replace("_", " "),
        drawing=Markup,  # drawings escape their own text
    )
    jinja_environment.globals.update(
        signed=_signed, parts=tier_parts, pool_parts=pool_parts, link=link, share=_share, episode_href=episode_href
    )
    return jinja_environment


def _cores(milli: int | None, digits: int = 1) -> str:
    """Cores with a fixed number of digits, so that columns align."""
    return NOTHING if milli is None else f"{milli / 1000:.{digits}f}"


def _gib(count: int | None, digits: int = 1) -> str:
    """GiB with a fixed number of digits, so that columns align; an amount that they round to nothing is not zero."""
    if count is None:
        return NOTHING
    text, least = f"{count / 2**30:.{digits}f}", f"{10**-digits:.{digits}f}"
    return f"<{least}" if count > 0 and float(text) == 0 else text


def _span(seconds: float) -> str:
    """A duration in its largest unit of which it has two: `90 s`, `12 min`, `3 h`."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _named(name: str) -> Markup:
    return Markup('<span class="longname">{}</span>').format(name) if len(name) > LONG_NAME else escape(name)


def _value(value: Any) -> str:
    """A field's value: text as it is, anything else as JSON; cut where it is long."""
    text = value if isinstance(value, str) else NOTHING if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONG_VALUE else f"{text[:LONG_VALUE]}…"


def _percent(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else percent(value, digits)


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


def _since(at: datetime | None, now: datetime) -> Markup:
    """A time with its age: `10:32:05 · 12 s ago`."""
    return _when(at) if at is None else Markup('{} <span class="muted">{}</span>').format(_when(at), _ago(at, now))


def _stamp(at: datetime, now: datetime) -> Markup:
    """A time for logs, with its date unless it is today."""
    utc = at.astimezone(UTC)
    day = "" if utc.date() == now.astimezone(UTC).date() else f"{utc:%Y-%m-%d} "
    return Markup("{}{}").format(day, _when(at))


def _number(value: float, digits: int = 1) -> str:
    """A number with thin spaces between thousands."""
    return f"{value:,.{digits}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _share(part: float, whole: float, css: str) -> Markup:
    """A bar for a share of a whole; drawings escape their own text."""
    return Markup(share_bar(min(1.0, part / whole) if whole > 0 else 0.0, css))  # noqa: S704


def link(path: str, **query: object) -> str:
    """A path with the parameters that have a value."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path


def _signed(value: int, unit: str) -> str:
    """A number with a true minus sign, or a plus for a gain."""
    if unit.startswith("milli"):
        return ("+" if value > 0 else MINUS if value < 0 else "") + cores(abs(value))
    return ("+" if value > 0 else MINUS if value < 0 else "") + amount(abs(value), unit)


@dataclass(frozen=True, slots=True)
class TierPart:
    """An entry of a legend."""

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


_POOL_TITLES = {
    "system": "System or reserve",
    "prod": "Prod, used",
    "expected": "Prod, expected",
    "mid": "Mid",
    "batch": "Batch, used",
    "offered": "Batch, offered",
    "margin": "Kept back",
    "over": "Beyond capacity",
}


def pool_parts(layers: tuple[StackLayer, ...]) -> list[TierPart]:
    """The legend of the pools' bars, in their order; what exceeds the capacity only where it does."""
    shown = [layer for layer in layers if layer.amount or layer.name != "over"]
    return [TierPart(layer.name, _POOL_TITLES[layer.name], layer.amount) for layer in shown]


def tier_parts(layers: tuple[StackLayer, ...]) -> list[TierPart]:
    """The legend of a stack, from the top down, without empty tiers (but always with the offer)."""
    shown = [layer for layer in layers if layer.amount or layer.name in ("prod", "batch", "offered", "margin")]
    return [TierPart(layer.name, _TITLES[layer.name], layer.amount) for layer in reversed(shown)]
