from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from small_models import LAST, LIMITS, SaysLast, Silent, contender, no_time, trace_of

from slackwater.backtest.domain.span import judged_span
from slackwater.backtest.edge.page import chosen, page
from slackwater.backtest.edge.pictures import ShownModel, plane
from slackwater.backtest.edge.report_model import BacktestReport, report_of
from slackwater.backtest.service import BacktestOutcome, Order
from slackwater.backtest.usecases.compare import PlacementLayout, compare
from slackwater.backtest.usecases.judge import ORACLE
from slackwater.charts import rates
from slackwater.charts.svg import Frame
from slackwater.pages.paper import COLOURS, TEMPLATES
from slackwater.traces.grouping import grouped
from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.trace import DAY_CELLS

HOSTILE = "<script>alert(1)</script>"


def outcome(*, filmed: bool = True, per_machine: int = 3, label: str = "last:factor=3") -> BacktestOutcome:
    usage = np.random.default_rng(1).gamma(2.0, 8.0, (round(3.5 * DAY_CELLS), 9)).clip(0, 100)
    trace = trace_of(usage)
    layout = PlacementLayout(
        per_machine=per_machine, churn_days=None if per_machine == 1 else 0.5, seeds=2, wrong_keys=0
    )
    order = Order(
        Path("made.csv"), TraceFormat.CSV, TraceResource.CPU, "all", per_machine, None, 2, 0.0, None, None, filmed
    )
    models = [LIMITS, LAST, contender(label, lambda: SaysLast(3.0))]
    span = judged_span(trace, "1", None)
    found = compare(trace, layout, models, span, watch=Silent(), stopwatch=no_time, filmed=filmed)
    return BacktestOutcome(order, trace, layout, span, found)


@pytest.fixture(scope="module")
def judged() -> BacktestOutcome:
    return outcome()


def test_the_answer_is_of_the_stated_schema_and_begins_with_the_oracle(judged: BacktestOutcome) -> None:
    answer = report_of(judged).model_dump(mode="json", by_alias=True)
    assert answer["schema"] == "slackwater.backtest/1"
    again = BacktestReport.model_validate_json(json.dumps(answer))
    assert [one.model for one in again.models] == [ORACLE, "limits", "last", "last:factor=3"]
    assert again.placement.placements == len(again.models[0].placements) == 2
    assert again.evaluated.from_day == 1
    assert again.evaluated.to_day == 2.5
    last = again.models[2]
    assert 0 < last.violation.least <= last.violation.mean <= last.violation.greatest <= 1
    assert last.violation.mean == pytest.approx(np.mean([one.violation for one in last.placements]))


def fields_of(model: type[BaseModel]) -> set[str]:
    found: set[str] = set()
    for name, field in model.model_fields.items():
        found.add(field.alias or name)
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, BaseModel):
                found |= fields_of(part)
    return found


def test_every_field_of_the_answer_is_described() -> None:
    described = (Path(__file__).parents[3] / "docs" / "reference" / "backtest.md").read_text()
    named = set(re.findall(r"`([a-z0-9_]+)`", described))
    assert fields_of(BacktestReport) - named == set()


def test_the_page_needs_nothing_else_and_has_every_picture(judged: BacktestOutcome) -> None:
    text = page(judged)
    assert not re.search(r"https?://|<script|<link|<img|url\(|@import|<iframe", text)
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 1 + 3 + 2
    for picture in pictures:
        root = ElementTree.fromstring(picture)  # noqa: S314 - made by us a line above
        assert root.get("aria-label")
        assert len(list(root.iter())) > 10
        assert "nan" not in picture.lower()
    for label in ("limits", "last", "last:factor=3"):
        assert text.count(label) >= 4
    assert "prefers-color-scheme: dark" in text


def test_names_are_text_and_never_markup() -> None:
    text = page(outcome(label=HOSTILE))
    assert HOSTILE not in text
    assert "&lt;script&gt;" in text


def test_a_page_of_whole_machines_says_so() -> None:
    assert "Each of the 9 machines is judged as a whole" in page(outcome(per_machine=1))


def test_without_a_film_there_is_no_page() -> None:
    with pytest.raises(ValueError, match="film"):
        page(outcome(filmed=False))


def test_the_machines_shown_are_the_worst_the_middle_and_the_best(judged: BacktestOutcome) -> None:
    film = judged.comparison.film
    assert film is not None
    short = np.maximum(film.peaks[ORACLE] - film.peaks["last"], 0).sum(axis=0) / film.peaks[ORACLE].sum(axis=0)
    picks = [machine for _, machine in chosen(film, "last")]
    assert picks[0] == int(np.argmax(short))
    assert picks[-1] == int(np.argmin(short))
    assert len(set(picks)) == 3


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_risk_is_never_further_left(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= rates.position(low) <= rates.position(high) <= 1
    assert rates.position(0) == 0
    assert rates.position(1) == 1


def test_groups_keep_what_matters_of_every_moment() -> None:
    values = np.array([1, 5, 2, 2, 9], np.float32)
    assert grouped(values, 2, np.max).tolist() == [5, 2, 9]
    assert grouped(values, 2, np.min).tolist() == [1, 2, 9]


def test_names_in_the_plane_cover_no_other_name_and_no_spot(judged: BacktestOutcome) -> None:
    one = ShownModel(judged.comparison.judgements[1], "c0")
    frame = Frame(860, 470)
    drawn = rates.labels([(one.judgement.label, one.css)] * 12, [(400.0 + n, 200.0 + n % 3) for n in range(12)], frame)
    places = [
        float(match[1]) for text in drawn if (match := re.search(r'<text x="[\d.]+" y="([\d.]+)"', text)) is not None
    ]
    assert len(places) == 12
    gaps = np.diff(sorted(places))
    assert gaps.min() >= 12
    assert plane([one] * 3, judged.comparison.judgements[0])


def luminance(colour: str) -> float:
    linear = []
    for at in (1, 3, 5):
        value = int(colour[at : at + 2], 16) / 255
        linear.append(value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_names_of_models_are_readable_in_their_colours_by_day_and_by_night() -> None:
    """4.5 to 1 against what is behind them, as everywhere."""
    day, night = (TEMPLATES / "page.css").read_text().split("prefers-color-scheme: dark")
    for theme in (day, night):
        card = re.search(r"--card: (#\w{6})", theme)
        colours = dict(re.findall(r"--(c\d+|ink|soft): (#\w{6})", theme))
        assert card is not None
        assert len(colours) == COLOURS + 2
        for name, colour in colours.items():
            dark, light = sorted((luminance(colour), luminance(card[1])))
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{name} {colour} on {card[1]}"
