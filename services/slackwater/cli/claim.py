"""`slackwater claim`: asks a quota for resources, shows its queue, and gives back."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from slackwater.cli.output import Format, errors_to_stderr, print_object
from slackwater.model.errors import InvalidInput

SERVER = Annotated[
    str | None, typer.Option("--server", help="URL of a process with quota; default: the instance of this machine")
]


def command(
    quota: Annotated[str, typer.Argument(metavar="QUOTA", help="an ElasticQuota, as in `slackwater get quotas`")],
    cpu: Annotated[str | None, typer.Option(help="CPU of the tier, like 2 or 500m; no amount: show the queue")] = None,
    memory: Annotated[str | None, typer.Option(help="memory of the tier, like 4Gi")] = None,
    resource: Annotated[
        list[str] | None, typer.Option(metavar="NAME=AMOUNT", help="any other resource, repeatable")
    ] = None,
    tier: Annotated[str, typer.Option(help="prod, mid or batch")] = "batch",
    name: Annotated[
        str | None, typer.Option("--id", help="id of the claim; repeating it asks for nothing more; default: a new one")
    ] = None,
    priority: Annotated[int, typer.Option(help="within the queue of the quota; higher goes first")] = 0,
    non_preemptible: Annotated[bool, typer.Option(help="never reclaimed; within the min of the quota only")] = False,
    grace: Annotated[float, typer.Option(help="seconds between the demand to end and the end")] = 30.0,
    workload: Annotated[str, typer.Option(help="key under which agents report what runs")] = "",
    release: Annotated[bool, typer.Option("--release", help="end the claim of --id instead")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would be decided, change nothing")] = False,
    output: Annotated[Format, typer.Option("-o", "--output", help="json and yaml are the API's object")] = Format.TABLE,
    server: SERVER = None,
) -> None:
    """Claim resources of a quota: admitted, queued with its position, or refused with the reason. Exit status 3 while
    it waits or if it is refused.

    Examples: `slackwater claim team-a --cpu 2 --memory 4Gi --id job-7`, `slackwater claim team-a`,
    `slackwater claim team-a --id job-7 --release`
    """
    from slackwater.cli.client import HttpReader, reading
    from slackwater.cli.quota_columns import claim_line, claim_table
    from slackwater.model.errors import Unavailable

    with errors_to_stderr():
        amounts = requested(cpu, memory, resource)
        with reading(server) as reader:
            if not isinstance(reader, HttpReader):
                raise Unavailable("no instance is running: start it with `slackwater up`, or name one with --server")
            path = claims_path(quota)
            params = {"dryRun": "true" if dry_run else None}
            if release:
                answer = reader.send("DELETE", f"{path}/{quote(_given(name), safe='')}", params)
            elif amounts:
                from slackwater.model.identifiers import new_id

                body = {
                    "id": name or new_id(),
                    "tier": tier,
                    "request": amounts,
                    "priority": priority,
                    "non_preemptible": non_preemptible,
                    "grace_seconds": grace,
                    "workload": workload,
                }
                answer = reader.send("POST", path, params, body)
            else:
                answer = reader.get(path if name is None else f"{path}/{quote(name, safe='')}")
        if output in (Format.JSON, Format.YAML):
            print_object(answer, output)
        elif "items" in answer:
            print("\n".join(claim_table(answer["items"], wide=output is Format.WIDE)))
        else:
            print(claim_line(answer))
        if amounts and not release and answer["state"] in ("queued", "refused"):
            raise typer.Exit(3)


def requested(cpu: str | None, memory: str | None, others: list[str] | None) -> dict[str, Any]:
    """The amounts by resource, as written. Raises InvalidInput."""
    found = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text is not None}
    for other in others or ():
        name, equals, text = other.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--resource: {other!r} is not NAME=AMOUNT, like nvidia.com/gpu=1", field="resource")
        found[name] = text
    return found


def claims_path(quota: str) -> str:
    """The claims of a quota in the API."""
    return f"/v1/quotas/{quote(quota, safe='')}/claims"


def _given(name: str | None) -> str:
    if name is None:
        raise InvalidInput("--id: is missing; name the claim to release", field="id")
    return name
