"""Judges honest agents beside an attack by what they saw in quiet. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.bench.verdict import MOST_STEAL, Verdict
from tests.faults.scenario import percentile

FACTOR = 2.0
"""Of the quiet p99: what it may be beside an attack."""
LEAST_SAMPLES = 100
"""Fewer delays say nothing about their p99."""
MIB, MOST_NAMES = 2**20, 6


@dataclass(frozen=True, slots=True)
class Beside:
    """What was seen in one span: of honest agents, of the services, and of the attack (none in quiet).

    `stored` and `limited` are seconds from each honest report until it was stored, and from each crossing until its
    limit arrived. `cpu`, `peak` and `limit` are by service; `named` is what the services' metrics, or the answers to
    the attack, say of it. `wrong` are broken promises.
    """

    name: str
    seconds: float
    stored: Sequence[float]
    limited: Sequence[float]
    steal: float
    cpu: Mapping[str, float]
    peak: Mapping[str, int]
    limit: Mapping[str, int]
    sent: int = 0
    sent_bytes: int = 0
    attacker_cpu: float = 0.0
    answers: Mapping[str, int] = field(default_factory=dict)
    named: Mapping[str, float] = field(default_factory=dict)
    wrong: Sequence[str] = ()
    recovered_seconds: float = 0.0

    @property
    def p99(self) -> tuple[float, float]:
        """Of stored and limited."""
        return percentile(self.stored, 0.99), percentile(self.limited, 0.99)

    @property
    def busiest(self) -> str:
        """The service that used most CPU."""
        return max(self.cpu, key=lambda name: self.cpu[name], default="")

    @property
    def fullest(self) -> str:
        """The service whose memory came nearest to its limit."""
        return max(self.peak, key=lambda name: self.peak[name] / self.limit[name], default="")

    def facts(self) -> dict[str, Any]:
        """The figures, for the JSON line of a run."""
        found = asdict(self) | {"stored": len(self.stored), "limited": len(self.limited)}
        stored, limited = self.p99
        return found | {"stored_p99_seconds": round(stored, 3), "limited_p99_seconds": round(limited, 3)}


def joined(spans: Sequence[Beside]) -> Beside:
    """The spans of quiet as one."""
    first = spans[0]
    return Beside(
        first.name,
        sum(span.seconds for span in spans),
        [delay for span in spans for delay in span.stored],
        [delay for span in spans for delay in span.limited],
        max(span.steal for span in spans),
        {name: sum(span.cpu.get(name, 0.0) for span in spans) for name in first.cpu},
        {name: max(span.peak.get(name, 0) for span in spans) for name in first.peak},
        first.limit,
        wrong=[text for span in spans for text in span.wrong],
    )


def judge(beside: Beside, quiet: Beside, patience: float = 1.0) -> tuple[Verdict, str]:
    """The verdict on the honest agents' p99, and the reason of one that is not MET."""
    steal = max(beside.steal, quiet.steal)
    if steal > MOST_STEAL:
        return Verdict.NOT_MEASURABLE, f"{steal:.1%} of the CPU time was stolen"
    fewest = min(map(len, (beside.stored, beside.limited, quiet.stored, quiet.limited)))
    if fewest < LEAST_SAMPLES:
        return Verdict.NOT_MEASURABLE, f"{fewest} delays are too few"
    missed = [
        f"{what} {1000 * seen:.0f} ms, {seen / before:.1f} times quiet"
        for what, seen, before in zip(("stored", "limited"), beside.p99, quiet.p99, strict=True)
        if seen > FACTOR * patience * before
    ]
    return (Verdict.MISSED, "; ".join(missed)) if missed else (Verdict.MET, "")


def lines_of(rows: Sequence[Beside], quiet: Beside, patience: float = 1.0) -> Iterator[str]:
    """The table as text."""
    yield (f"  {'attack':14} {'sent':>8} {'MB':>6} {'its CPU':>7} {'stored p99 ms':>13} {'limited p99 ms':>14}"
           f" {'most CPU':>20} {'nearest to its memory limit':>32}  verdict")  # fmt: skip
    for row in (quiet, *rows):
        stored, limited = (f"{1000 * seen:.0f}" for seen in row.p99)
        if row is not quiet:
            stored, limited = (f"{1000 * before:.0f} / {seen}"
                               for before, seen in zip(quiet.p99, (stored, limited), strict=True))  # fmt: skip
        verdict, why = (Verdict.MET, "") if row is quiet else judge(row, quiet, patience)
        memory = f"{row.peak.get(row.fullest, 0) / MIB:.0f} / {row.limit.get(row.fullest, 0) / MIB:.0f} MiB"
        said = "" if row is quiet else f"{verdict}{': ' * bool(why)}{why}"
        yield (f"  {row.name:14} {row.sent:8} {row.sent_bytes / 1e6:6.0f} {row.attacker_cpu:5.1f} s {stored:>13}"
               f" {limited:>14} {row.busiest:>12} {row.cpu.get(row.busiest, 0.0):5.1f} s {row.fullest:>12}"
               f" {memory:>19}  {said}")  # fmt: skip
        if row.named or row.answers:
            names = [f"{what} +{count:g}" for what, count in row.named.items()]
            names += [f"answered: {what} {count}" for what, count in row.answers.items()]
            yield f"    named by {', '.join(names[:MOST_NAMES])}"
        for text in row.wrong:
            yield f"    broken: {text}"
