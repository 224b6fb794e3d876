"""`slackwater import`: the configuration of Koordinator as documents, and a report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli import exits
from slackwater.cli.output import errors_to_stderr, message

if TYPE_CHECKING:
    from slackwater.koordinator.conversion_report import Conversion, ReportLine


class ImportSource(StrEnum):
    """Where the configuration comes from."""

    KOORDINATOR = "koordinator"


class ImportFormat(StrEnum):
    """yaml: documents to stdout, report to stderr; json: both to stdout, as `items` and `report`."""

    YAML = "yaml"
    JSON = "json"


def command(
    source: Annotated[ImportSource, typer.Argument(help="the product whose configuration is read")],
    files: Annotated[
        list[Path], typer.Option("-f", "--filename", help="YAML of its objects, as kubectl get -o yaml; - is stdin")
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="exit status 3 if something has no counterpart that acts the same")
    ] = False,
    output: Annotated[
        ImportFormat,
        typer.Option("-o", "--output", help="yaml: documents; json: documents and report"),
    ] = ImportFormat.YAML,
) -> None:
    """Convert the configuration of Koordinator into documents for `apply`, and report what has no counterpart.

    Reads the ConfigMap slo-controller-config, ElasticQuotas and their profiles, ClusterColocationProfiles with their
    PriorityClasses, and labels and annotations of nodes and pods. Changes nothing. Exit status 1 if something is
    refused: the report names it, and what is printed is without it.

    Example: `slackwater import koordinator -f koordinator.yaml | slackwater apply -f -`
    """
    from slackwater.cli.output import Format, print_object
    from slackwater.koordinator.conversion import convert
    from slackwater.runtime.yaml_files import yaml_documents

    with errors_to_stderr():
        found = checked(convert(body for file in files for _, body in yaml_documents(file)))
        if output is ImportFormat.JSON:
            items = [document.body for document in found.documents]
            print_object({"items": items, "report": [asdict(line) for line in found.report]}, Format.JSON)
        else:
            for number, document in enumerate(found.documents):
                print("---" if number else f"# from {document.source}", flush=True)
                print_object(document.body, Format.YAML)
            for text in report_lines(found.report):
                message(text)
        if found.is_refused:
            raise typer.Exit(exits.ERROR)
        if strict and not found.is_complete:
            raise typer.Exit(exits.FINDINGS)


def checked(conversion: Conversion) -> Conversion:
    """Returns the conversion with what the kinds' models refuse in the report instead of the documents, also of quotas
    together: what `apply` would refuse, and with it what is below it in a tree."""
    from slackwater.fairshare.documents import ElasticQuota, default_document, quota_of
    from slackwater.fairshare.validation import refusals
    from slackwater.model.errors import InvalidInput
    from slackwater.resources import catalog
    from slackwater.resources.kind import loaded
    from slackwater.resources.names import CLUSTER

    kinds = {kind.name: kind for kind in catalog.KINDS}
    refused, quotas = dict[str, str](), {CLUSTER: quota_of(default_document(CLUSTER)).quota}
    for document in conversion.documents:
        above = f"{document.kind}/{document.spec.get('parent')}"  # parents come before their children
        if above in refused:
            refused[document.title] = f"its parent {above} is refused"
            continue
        try:
            parsed = loaded(kinds[document.kind].model).parse(document.body)
        except InvalidInput as error:
            refused[document.title] = error.message
            continue
        if isinstance(parsed, ElasticQuota):
            quota = quota_of(parsed).quota
            if found := refusals({**quotas, quota.name: quota}, quota, {}):
                refused[document.title] = "; ".join(f"{refusal.field}: {refusal.message}" for refusal in found)
            else:
                quotas[quota.name] = quota
    return conversion.without(refused)


def report_lines(report: Sequence[ReportLine]) -> Iterator[str]:
    """One entry per line of the report, the ones that need attention last, where a terminal shows them; a summary at
    the end."""
    order = ("converted", "alias", "changed", "dropped", "refused")
    for outcome in order:
        for line in (line for line in report if line.outcome == outcome):
            place = " ".join(part for part in (line.source, line.field) if part)
            counted = f" ({line.count})" if line.count > 1 else ""
            target = f" -> {line.target}" if line.target else ""
            note = f": {line.note}" if line.note else ""
            first, *more = textwrap.wrap(
                f"{place}{counted}{target}{note}", 108, break_on_hyphens=False, break_long_words=False
            )
            yield f"{outcome:<9} {first}"
            yield from (f"{'':<9} {rest}" for rest in more)
    counts = {outcome: sum(line.count for line in report if line.outcome == outcome) for outcome in order}
    yield ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) + (
        "" if report else ": nothing of Koordinator was found"
    )
