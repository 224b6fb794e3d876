"""Loads the templates of the HTML reports and formats figures in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jinja2

TEMPLATES = Path(__file__).parent / "templates"
COLOURS = 12
"""Number of colours: the classes c0 to c11 of the style sheet, in light and dark mode."""


def percent(value: float, digits: int = 2) -> str:
    return f"{value * 100:.{digits}f}"


def template(folder: Path, name: str, **filters: Callable[..., str]) -> jinja2.Template:
    """A template of the folder; it extends `page.html`. All values are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, **filters}
    return environment.get_template(name)
