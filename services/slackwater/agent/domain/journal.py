"""The journal's rules: previous texts, written texts, and what may be written back.

A claim is made before the first write of a knob and names the previous text. Each write is recorded before it is done,
so at any crash the knob holds the previous text or one of the last two texts recorded. Any other text was written by
another program: it is reported and left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.knobs import Knob

Record = Mapping[str, str]
"""One journal line: `op` is claim, write, release; `path`, `field` name the knob; `text` the previous or new value.
`boot` is the first line: `text` is the boot ID of the kernel whose files the others are about."""


@dataclass(slots=True)
class Claim:
    """A knob that the agent has written or is about to write: its previous text and the last two texts recorded."""

    previous: str
    written: list[str] = field(default_factory=list)

    def ours(self, present: str) -> bool:
        """Whether `present` is the agent's: untouched, or one of the last two writes (one may not have landed)."""
        return present == self.previous or present in self.written

    def note(self, text: str) -> None:
        """Remember a text that is about to be written."""
        if not self.written or self.written[-1] != text:
            self.written = [*self.written[-1:], text]


class Journal:
    """The claims in force, in the order in which they were made."""

    def __init__(self, claims: Mapping[Knob, Claim] | None = None) -> None:
        self._claims: dict[Knob, Claim] = dict(claims or {})

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, knob: object) -> bool:
        return knob in self._claims

    def claim_of(self, knob: Knob) -> Claim | None:
        return self._claims.get(knob)

    def knobs(self) -> tuple[Knob, ...]:
        """In the order of claiming; restore goes backwards."""
        return tuple(self._claims)

    def apply(self, record: Record) -> None:
        """Fold one record. Writes and releases of unknown knobs are ignored: their claim was compacted away."""
        knob = Knob(record["path"], record["field"])
        match record["op"]:
            case "claim":
                self._claims.setdefault(knob, Claim(record["text"]))
            case "write":
                if knob in self._claims:
                    self._claims[knob].note(record["text"])
            case "release":
                self._claims.pop(knob, None)

    def records(self) -> tuple[Record, ...]:
        """The shortest records that rebuild this journal."""
        lines: list[Record] = []
        for knob, claim in self._claims.items():
            lines.append(record("claim", knob, claim.previous))
            lines.extend(record("write", knob, text) for text in claim.written)
        return tuple(lines)


def record(op: str, knob: Knob, text: str = "") -> Record:
    """One journal line."""
    return {"op": op, "path": knob.path, "field": knob.field, "text": text}


def boot_record(boot_id: str) -> Record:
    """The first line of a journal."""
    return {"op": "boot", "path": "", "field": "", "text": boot_id}


def replay(records: Iterable[Record], boot_id: str = "") -> Journal:
    """The journal that these records leave in this boot; where either boot is unknown, it is taken for the same.

    No file of an earlier boot exists any more. One that was made anew at the same path may hold by chance what the
    agent wrote into the old one, and would get the text from before that.
    """
    journal = Journal()
    for line in records:
        if line["op"] == "boot" and boot_id and line["text"] != boot_id:
            return Journal()
        journal.apply(line)
    return journal
