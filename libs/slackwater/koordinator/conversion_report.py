"""What a conversion yields: documents, and lines that say what became of each setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from slackwater.model.records import record
from slackwater.resources.names import API_VERSION


class ImportOutcome(StrEnum):
    """What becomes of a setting.

    converted  a document has it, and it means the same
    changed    a document has it, and it acts differently or needs a further step
    alias      Slackwater reads the label or annotation under the name that it has
    dropped    it has no counterpart
    refused    it cannot be read, or the model does not take its value
    """

    CONVERTED = "converted"
    CHANGED = "changed"
    ALIAS = "alias"
    DROPPED = "dropped"
    REFUSED = "refused"


@record(frozen=True, slots=True)
class ReportLine:
    """`source` is the object, `field` the setting in it, `target` the document that has it; `count` objects say it."""

    outcome: ImportOutcome
    source: str
    field: str = ""
    target: str = ""
    note: str = ""
    count: int = 1


@record(frozen=True, slots=True)
class ConvertedDocument:
    """A document as `slackwater apply` and `kubectl apply` take it; `source` is the object that it comes from."""

    source: str
    kind: str
    name: str
    spec: Mapping[str, Any]

    @property
    def title(self) -> str:
        return f"{self.kind}/{self.name}"

    @property
    def body(self) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": self.kind,
            "metadata": {"name": self.name},
            "spec": dict(self.spec),
        }


ConvertedItem = ConvertedDocument | ReportLine


@record(frozen=True, slots=True)
class Conversion:
    """All documents in an order in which they can be applied, and the report."""

    documents: tuple[ConvertedDocument, ...]
    report: tuple[ReportLine, ...]

    @property
    def is_complete(self) -> bool:
        """Whether everything has a counterpart that means the same."""
        return all(line.outcome in (ImportOutcome.CONVERTED, ImportOutcome.ALIAS) for line in self.report)

    def without(self, refused: Mapping[str, str]) -> Conversion:
        """Returns the conversion without the documents whose titles are given; the texts say why, in the report."""
        kept = tuple(document for document in self.documents if document.title not in refused)
        lines = (
            ReportLine(ImportOutcome.REFUSED, document.source, target=document.title, note=refused[document.title])
            for document in self.documents
            if document.title in refused
        )
        said = (self._after(line, refused) for line in self.report)
        return Conversion(kept, (*(line for line in said if line is not None), *lines))

    @staticmethod
    def _after(line: ReportLine, refused: Mapping[str, str]) -> ReportLine | None:
        """What a line says once its document is refused; None: nothing."""
        if line.target not in refused or line.outcome is ImportOutcome.REFUSED:
            return line
        if line.outcome is ImportOutcome.ALIAS:
            return replace(line, outcome=ImportOutcome.DROPPED, target="", note="nothing reads it")
        return None if line.outcome is ImportOutcome.CONVERTED else line

    @property
    def is_refused(self) -> bool:
        """Whether something was refused."""
        return any(line.outcome is ImportOutcome.REFUSED for line in self.report)


def counted_lines(lines: Iterable[ReportLine]) -> tuple[ReportLine, ...]:
    """Returns equal lines as one, with the sum of their counts, in the order of their first."""
    found: dict[ReportLine, int] = {}
    for line in lines:
        single = replace(line, count=1)
        found[single] = found.get(single, 0) + line.count
    return tuple(replace(line, count=count) for line, count in found.items())
