"""The timeline of a record: what caused what, the text and the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from xml.etree import ElementTree

from tests.world.timeline.history import History, chain, near, read_history
from tests.world.timeline.page import Facts, render_page
from tests.world.timeline.sequence import draw_sequence
from tests.world.timeline.text import render_text
from tests.world.trace import Kind, Trace

REPORT, WINDOW, OFFER = (f"019b8b74-1890-7b07-bf25-00000000000{number}" for number in (1, 2, 3))
FACTS = Facts(
    7, "abc", "1 fault", 60.0, (("faults", 40.0), ("quiet", 15.0), ("rest", 5.0)), 'make world ARGS="--seed 7"'
)
FAILURE = f"fencing: ingestion-0/1 committed <b>a & b</b> ({WINDOW}); ingestion-1 owns 3"


def stored(trace: Trace, at: float, process: str, event: str, sequence: int, cause: str = "") -> None:
    detail = {"stream": "STATE", "sequence": sequence, "id": event}
    trace.add(at, process, Kind.STORED, f"sw.v1.x.{sequence}", cause=cause, detail=detail)


def record(noise: int = 0, failure: str = FAILURE) -> list[str]:
    """Lines of a report, its window (by an outbox) and its offer, among other steps."""
    trace = Trace(kept=[])
    trace.add(0.0, "", Kind.STARTED, "ingestion-0/1")
    fault = {"target": "ingestion-0>postgres", "seconds": 20.0, "amount": 0.0}
    trace.add(1.0, "", Kind.FAULT_BEGAN, "cut", detail=fault)
    stored(trace, 2.0, "agent-00", REPORT, 1)
    for number in range(noise):
        trace.add(3.0 + number / 1000, f"agent-{number % 10:02d}", Kind.BROADCAST, "sw.v1.lease.renewed")
    trace.add(20.0, "ingestion-0", Kind.COMMITTED, "ingestion", detail={"rows": {"outbox": 1}, "events": [WINDOW]})
    stored(trace, 20.5, "ingestion-0", WINDOW, 2, REPORT)
    stored(trace, 21.0, "colocation-0", OFFER, 3, WINDOW)
    trace.add(21.5, "client-0", Kind.READ, "x", detail={"stream": "STATE", "sequence": 3, "gap": False})
    if failure:
        trace.add(21.5, "client-0", Kind.VIOLATED, failure, detail={"step": 5 + noise})
    return [step.line() for step in trace.kept or ()]


def numbers(history: History, places: Sequence[int] | set[int]) -> list[int]:
    return [history.events[place].n for place in sorted(places)]


def test_arrows_lead_from_publisher_to_reader() -> None:
    history = read_history(record())
    pairs = {(history.events[edge.source].n, history.events[edge.target].n) for edge in history.edges}
    assert pairs == {(3, 4), (4, 5), (5, 6), (6, 7)}  # the report to the commit that it caused, and so on


def test_the_causal_chain_has_causes_and_faults_and_nothing_later() -> None:
    history = read_history(record(noise=50))
    assert numbers(history, chain(history)) == [1, 2, 3, 54, 55]


def test_a_history_that_holds_has_no_chain() -> None:
    history = read_history(record(failure=""))
    assert (history.violation, history.failed, chain(history)) == (None, None, set())
    assert numbers(history, near(history, 3)) == [5, 6, 7]
    assert "VIOLATED" not in render_text(history)
    assert "every invariant holds" in render_page(history, FACTS)


def test_the_text_shows_the_chain_the_gap_and_the_violation() -> None:
    text = render_text(read_history(record(noise=500)), steps=10)
    assert "… 492 steps" in text
    assert f"VIOLATED: {FAILURE}" in text
    window = next(line for line in text.splitlines() if "STATE #2" in line)
    assert window.startswith("*")
    assert "← 3" in window
    assert "\x1b" not in text
    assert "\x1b[1;31m" in render_text(read_history(record()), is_coloured=True)


def test_the_columns_of_the_text_are_aligned() -> None:
    lines = render_text(read_history(record(noise=20))).splitlines()
    events = [line for line in lines if re.match(r"[* ] +\d+ +[\d.]+ s ", line)]
    assert len({line.index(" s  ") for line in events}) == 1
    assert len(events) == 25


class Page(HTMLParser):
    """Collects what a page refers to, and the ids of its rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.references: list[str] = []
        self.rows: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.references += [str(given[name]) for name in ("src", "href") if name in given]
        if tag == "tr":
            self.rows.append(str(given["id"]))


def test_the_page_is_complete_escaped_and_needs_no_other_file() -> None:
    html = render_page(read_history(record(noise=5000)), FACTS)
    page = Page(html)
    assert page.references == []
    assert not re.search(r"url\((?!#)|@import|https?://", html)
    assert page.rows == [f"s{n}" for n in range(1, 5008)]
    assert "b" not in page.tags  # what a failure says is text
    assert "--until 5005" in html
    assert len(html) < 3_000_000


def test_the_picture_collapses_what_is_far_and_draws_the_chain() -> None:
    svg = draw_sequence(read_history(record(noise=5000)))
    root = ElementTree.fromstring(svg)  # noqa: S314 - drawn above
    steps = [node for node in root.iter("g") if "step" in node.get("class", "")]
    assert 120 <= len(steps) <= 125
    assert sum("led" in node.get("class", "") for node in steps) == 5
    arrows = [node.get("class", "") for node in root.iter("path") if "arrow" in node.get("class", "")]
    assert [css.split() for css in arrows] == [["arrow", "led"], ["arrow", "led"]]
    assert "steps without a part in it" in svg
