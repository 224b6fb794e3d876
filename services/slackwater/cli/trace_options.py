"""The options of every verb that replays a trace on nodes. `--help` imports this module, so it imports nothing
heavy.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slackwater.model.errors import InvalidInput
from slackwater.traces.options import TraceResource


class Output(StrEnum):
    """`json` has a documented schema, see the page of the verb."""

    TABLE = "table"
    JSON = "json"


TraceOption = Annotated[Path | None, typer.Option("--trace", metavar="PATH", help="a file of a trace, or its folder")]
FormatOption = Annotated[
    str | None,
    typer.Option("--format", help="format of the trace, if it is not detected; see docs/how-to/backtest.md"),
]
ResourceOption = Annotated[TraceResource | None, typer.Option("--resource", help="only this resource of the trace")]
PerNodeOption = Annotated[
    int | None,
    typer.Option("--vms-per-node", help="default 20, or 1 if the trace has whole machines"),
]
ChurnOption = Annotated[str, typer.Option("--churn", metavar="none|2d", help="mean stay on a node: 2d, 12h")]
SeedOption = Annotated[int, typer.Option("--seed", help="seed of the placement; at least 0")]
OutputOption = Annotated[Output, typer.Option("-o", "--output", help="json follows a documented schema")]
PageOption = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="write an HTML page with charts")]


def check_page(html: Path | None) -> None:
    """Check the folder before the long work begins. Raises InvalidInput."""
    if html is not None and not html.parent.is_dir():
        raise InvalidInput(f"--html: folder {html.parent} does not exist; create it or name another", field="html")
