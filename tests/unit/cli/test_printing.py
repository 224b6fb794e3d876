"""How the reading verbs draw: bars, tables at any width, colours only for people, the past tense for what stopped."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slackwater.cli import decision_list, decision_text, list_reader, output, why

UUID = "0198c2d4-7a10-7cc3-8000-00000badcafe"
milli = st.integers(-64_000, 64_000)


@given(milli, milli, st.integers(0, 64_000), st.integers(0, 64_000), st.integers(12, 32))
def test_a_bar_has_its_width_and_shows_every_change(
    before: int, after: int, below: int, above: int, cells: int
) -> None:
    low, high = min(before, after) - below, max(before, after) + above
    drawn = why.bar(before, after, low, high, cells)
    assert len(drawn) == cells
    assert (drawn.strip() == "") == (before == after)


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_bar_begins_where_the_one_before_ends(first: int, second: int) -> None:
    total = first + second
    one, two = why.bar(0, first, 0, total, 32), why.bar(first, total, 0, total, 32)
    assert one[0] != " "
    assert abs(len(one.rstrip()) - (len(two) - len(two.lstrip()))) <= 1
    assert two[-1] != " "


def waterfall(rows: Sequence[tuple[str, int, str, str]], **more: Any) -> dict[str, Any]:
    total, found = 0, []
    for name, value, note, source in rows:
        row = {"name": name, "value": value, "running_before": total, "running_after": total + value, "note": note}
        found.append(row | {"source": source, "observed_at": "2026-01-05T09:59:00Z"})
        total += value
    inputs = [
        {"name": r["name"], "value": r["value"], "unit": "milli", "source": r["source"], "observed_at": None}
        for r in found
    ]
    record = {"id": UUID, "reason": "offer_changed", "rule": "usage", "unit": "milli", "inputs": inputs}
    record |= {"alternatives": [], "remaining": 0, "remaining_because": "", "decided_at": "2026-01-05T10:00:00Z"}
    return {
        "node": "edge-7",
        "subject": "batch-cpu",
        "in_force_since": "2026-01-05T10:00:00Z",
        "unit": "milli",
        "waterfall": found,
        "result": total,
        "adds_up": True,
        "record": record | more,
    }


OFFER = (
    ("capacity", 16_000, "", UUID),
    ("safety_margin", -800, "5 % of capacity", ""),
    ("prod", -12_345, "3 by prediction, 1 by request (no warm prediction)", UUID),
)


def printed(answer: dict[str, Any], width: int, show: Callable[[Console, Any], None] = why.print_waterfall) -> str:
    out = io.StringIO()
    show(Console(file=out, width=width, color_system=None, highlight=False), answer)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_waterfall_fits_the_terminal_with_its_columns_in_line(width: int) -> None:
    lines = printed(waterfall(OFFER), width).splitlines()
    assert max(map(len, lines)) <= width
    head = next(line for line in lines if line.startswith("TERM"))
    end = head.index("CORES") + len("CORES")
    for name, number in (
        ("capacity", "+16.000"),
        ("safety_margin", "-0.800"),
        ("prod", "-12.345"),
        ("result", "2.855"),
    ):
        row = next(line for line in lines if line.startswith(name))
        assert row[:end].endswith(number), "points of numbers stand below each other"


CANDIDATES = [
    {"place": 1, "name": "index-0", "chosen": True, "released": 256, "would_release": None, "because": ""}
    | {"keys": [1, 1, 5500, -475000000, 0, -1795372386]},
    {"place": None, "name": "a-pod-of-a-name-that-is-long", "chosen": False, "released": None, "would_release": 19_312}
    | {"keys": [], "because": "tier prod is protected"},
]


def candidates(width: int) -> str:
    def show(console: Console, rows: Any) -> None:
        decision_text.print_candidates(console, rows, "lower tier, uid", "milli-cores")

    return printed(CANDIDATES, width, show)  # type: ignore[arg-type]  # printed hands on what it is given


def words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("width", [30, 46, 60, 80, 120, 200])
def test_no_terminal_is_so_narrow_that_a_number_a_name_or_a_reason_is_cut(width: int) -> None:
    for text, whole in (
        (printed(waterfall(OFFER), width), printed(waterfall(OFFER), 10_000)),
        (candidates(width), candidates(10_000)),
    ):
        lines = [line for line in text.splitlines() if not line.startswith(("in force", "decision"))]
        assert max(map(len, lines)) <= width
        assert "…" not in text.replace("…0badcafe", "")
        bars = set("█▏▎▍▌▋▊▉")
        wanted = {word for word in words(whole) if not set(word) & bars and len(word) < width - 4}
        assert wanted <= set(words(text))


def test_what_has_no_room_beside_stands_below_with_its_title() -> None:
    lines = candidates(48).splitlines()
    assert lines[0].split() == ["PLACE", "POD"]
    assert "    RELEASES 0.256  KEYS 1 1 5500 -475000000 0" in lines
    assert "    RELEASES 19.312  WHY NOT tier prod is" in lines


def test_a_row_is_one_line_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    long = "said at some length, " * 20
    why.print_waterfall(why._console(), waterfall((("capacity", 16_000, long, UUID),)))
    assert any(line.startswith("capacity") and "…0badcafe at 09:59:00Z" in line for line in out.getvalue().splitlines())


def test_short_ids_distinguish_events_of_the_same_minute() -> None:
    assert output.short(UUID) == "…0badcafe"
    assert output.short("policy default") == "policy default"
    assert UUID not in printed(waterfall(OFFER), 140).replace(f"decision {UUID}", "")


def test_names_are_printed_as_they_are_even_where_they_look_like_markup() -> None:
    answer = waterfall(OFFER, rule="busy[/b] [red]")
    assert "rule busy[/b] [red]" in printed(answer, 100)


def test_since_when_a_number_is_in_force_is_a_time_that_can_be_asked_for() -> None:
    """Cut to the second it was before the decision, so `--at` with what was printed told of the one before."""
    answer = waterfall(OFFER) | {"in_force_since": "2026-01-05T10:00:00.300400Z"}
    assert "in force since 2026-01-05T10:00:00.300400Z, " in printed(answer, 100)
    assert "in force since 2026-01-05 10:00:00Z, " in printed(waterfall(OFFER), 100)


def test_a_number_that_no_rule_led_to_names_none() -> None:
    assert "offer_changed, rule none" in printed(waterfall(OFFER, rule=""), 100)


def test_a_sum_that_is_wrong_is_said_loudly() -> None:
    assert "THE TERMS DO NOT ADD UP" in printed(waterfall(OFFER) | {"adds_up": False}, 100)


def test_what_could_not_be_closed_is_printed_with_its_reason() -> None:
    text = printed(waterfall((), remaining=800, remaining_because="all are at their floor"), 100)
    assert "0.8 cores remain: all are at their floor" in text


def test_a_throttle_that_found_nothing_says_what_remained() -> None:
    decision = {
        "decided_at": "2026-01-05T10:00:00Z",
        "kind": "throttle",
        "node": "edge-7",
        "subject": "cpu",
        "result": 0,
        "mode": "throttle",
        "actions": [],
        "unit": "milli-cores",
        "reason": "throttle_waterline_crossed",
        "id": UUID,
        "remaining": 800,
        "remaining_because": "all are at their floor",
    }
    (line,) = output.table([decision], decision_list.DECISION, wide=False, headers=False)
    assert " nothing to do " in line
    assert line.endswith("0.8 cores: all are at their floor")
    assert "0 cores  " not in line


@dataclass
class Recorded:
    live: bool


def test_liveness_of_a_stopped_instance_is_marked_as_past() -> None:
    nodes = [{"name": "a", "liveness": "fresh"}, {"name": "b", "liveness": None}]
    past = list_reader.as_recorded(nodes, Recorded(live=False))  # type: ignore[arg-type]  # only `live` is asked for
    assert [node["liveness"] for node in past] == ["was fresh", None]
    assert list_reader.as_recorded(nodes, Recorded(live=True)) is nodes  # type: ignore[arg-type]  # only `live` is asked for


@pytest.mark.parametrize(
    ("terminal", "environment", "wanted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], wanted: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out = io.StringIO()
    out.isatty = lambda: terminal  # type: ignore[method-assign]  # plays a terminal
    monkeypatch.setattr("sys.stdout", out)
    assert output.colours_wanted() is wanted
    why.print_waterfall(why._console(), waterfall(OFFER))
    assert ("\x1b[" in out.getvalue()) is wanted


@given(st.integers(0, 10**7))
def test_an_age_is_short_and_never_reads_more_than_it_is(seconds: int) -> None:
    now = output.parse_time("2026-06-01T00:00:00+00:00")
    text = output.age((now - timedelta(seconds=seconds)).isoformat(), now)
    size = {"s": 1, "m": 60, "h": 3600, "d": 86400}[text[-1]]
    assert int(text[:-1]) * size <= seconds < (int(text[:-1]) + 1) * size


def test_a_row_that_is_wider_than_the_terminal_goes_on_below_with_titles(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [output.TableColumn(title, lambda item, key=title: item[key]) for title in ("NAME", "CPU", "NOTE")]  # type: ignore[misc]
    items = [{"NAME": "edge-7", "CPU": "2.5", "NOTE": "a note of several words that does not fit"}]
    whole = output.table(items, columns, wide=False, headers=True)
    assert whole[1] == "edge-7  2.5  a note of several words that does not fit", "in a pipe a row is one line"
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "24")
    folded = output.table(items, columns, wide=False, headers=True)
    assert folded[:2] == ["NAME    CPU", "edge-7  2.5"]
    assert max(map(len, folded)) <= 24
    assert " ".join(" ".join(folded[2:]).split()) == "NOTE a note of several words that does not fit"
    monkeypatch.setenv("COLUMNS", "200")
    assert output.table(items, columns, wide=False, headers=True) == whole


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
