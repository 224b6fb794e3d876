"""`slackwater doctor`: checks this machine, the instance that runs here, what a stopped one left, or a cluster."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli import exits

if TYPE_CHECKING:  # heavy: imported when the command runs
    from slackwater.cli.findings import Finding

_MARKS = {"ok": ("\x1b[32m", "ok  "), "warn": ("\x1b[33m", "warn"), "fail": ("\x1b[31m", "fail")}
_END = "\x1b[0m"
_DIM = "\x1b[2m"
_CHECK_WIDTH = 10
_LEAST_WIDTH = 60


class DoctorFormat(StrEnum):
    """How to print the findings."""

    TABLE = "table"
    JSON = "json"


def command(
    output: Annotated[
        DoctorFormat, typer.Option("--output", "-o", help="Output for people or for programs.")
    ] = DoctorFormat.TABLE,
    state_dir: Annotated[
        Path | None, typer.Option(help="State directory of the instance; or SLACKWATER_STATE_DIR.")
    ] = None,
    kubernetes: Annotated[
        bool, typer.Option("--kubernetes", help="Check a cluster instead: before installing, and at any time after.")
    ] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="With --kubernetes: file with the cluster and account; default KUBECONFIG.")
    ] = None,
    context: Annotated[str, typer.Option(help="Context of the kubeconfig; default its current one.")] = "",
    namespace: Annotated[str, typer.Option(help="With --kubernetes: namespace of the services.")] = "slackwater",
) -> None:
    """Check this machine and the instance here, or a cluster, and suggest remedies. Changes nothing.

    Exit status: 0 if nothing failed (warnings may be there), 3 if something did.
    """
    from slackwater.cli.findings import examine, exit_needed
    from slackwater.cli.machine_snapshot import snapshot
    from slackwater.cli.output import Format, colours_wanted, print_object
    from slackwater.runtime.state import client_state_dir

    if kubernetes:
        findings = _cluster_findings(str(kubeconfig or ""), context, namespace)
    else:
        findings = examine(snapshot((state_dir or client_state_dir()).absolute()))
    if output is DoctorFormat.JSON:
        print_object({"items": [asdict(finding) for finding in findings]}, Format.JSON)
    else:
        width = max(_LEAST_WIDTH, shutil.get_terminal_size((100, 24)).columns)
        for line in lines(findings, width, colours=colours_wanted()):
            print(line)
    if exit_needed(findings):
        raise typer.Exit(exits.FINDINGS)


def _cluster_findings(kubeconfig: str, context: str, namespace: str) -> list[Finding]:
    import asyncio

    from slackwater.cli.cluster_findings import ClusterSnapshot, examine_cluster
    from slackwater.cli.cluster_snapshot import cluster_snapshot
    from slackwater.cli.composition import load
    from slackwater.model.errors import Misconfigured

    open_server = load("slackwater.kubernetes.adapters.http_api_server:open_api_server")

    async def read() -> ClusterSnapshot:
        async with open_server(kubeconfig, context) as server:
            return await cluster_snapshot(server, namespace)

    try:
        return examine_cluster(asyncio.run(read()))
    except Misconfigured as error:
        return examine_cluster(ClusterSnapshot(url="", trouble=error.message))


def lines(findings: Sequence[Finding], width: int, *, colours: bool) -> Iterator[str]:
    """One line per finding, its advice below it, wrapped to `width`; a summary at the end."""
    margin = " " * (len("fail ") + _CHECK_WIDTH + 1)
    for finding in findings:
        colour, mark = _MARKS[finding.level.value]
        first, *more = textwrap.wrap(
            finding.seen, width - len(margin), break_on_hyphens=False, break_long_words=False
        ) or [""]
        yield f"{_in(colour, mark, colours)} {finding.check:<{_CHECK_WIDTH}} {first}".rstrip()
        yield from (f"{margin}{line}" for line in more)
        if finding.advice:
            for line in textwrap.wrap(f"-> {finding.advice}", width - len(margin), subsequent_indent="   "):
                yield f"{margin}{_in(_DIM, line, colours)}"
    yield ""
    yield _sum(findings)


def _sum(findings: Sequence[Finding]) -> str:
    counts = {level: sum(finding.level == level for finding in findings) for level in ("fail", "warn", "ok")}
    return f"{counts['ok']} ok, {counts['warn']} warnings, {counts['fail']} failures"


def _in(colour: str, text: str, enabled: bool) -> str:
    return f"{colour}{text}{_END}" if enabled else text
