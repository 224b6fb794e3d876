"""`slackwater events` against a console that tells the story, and its lines for every type there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import Result
from samples import sample_of
from served import Served, served
from tests.support.clock import EPOCH
from tests.support.story import SURGE

from slackwater.bus.admin.streams import event_named
from slackwater.cli.events import line_of, words_of
from slackwater.console.edge.stream_routes import KNOWN
from slackwater.events.rosters import no_roster

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def surge() -> Iterator[Served]:
    """A console some seconds after the surge began; the clock of its bus is that of the story."""
    with served(SURGE[0] + 40) as running:
        yield running


def test_the_past_is_shown_as_a_table_and_then_it_ends(run: Run, surge: Served) -> None:
    done = run("events", "--server", surge.url, "--since", "5m", "--types", "decision.*,effect.measured")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["TIME", "NODE", "TYPE", "WHAT"]
    assert any("throttle" in line and "waterline" in line for line in lines)
    assert {line.split()[3] for line in lines[1:]} <= {"decision.recorded", "effect.measured"}


def test_as_json_each_line_is_an_event_and_the_place_to_go_on_from(run: Run, surge: Served) -> None:
    arguments = ("events", "--server", surge.url, "--types", "decision.recorded", "-o", "json")
    first = [json.loads(line) for line in run(*arguments, "--since", "1h").stdout.splitlines()]
    assert len(first) > 3
    rest = [json.loads(line) for line in run(*arguments, "--after", first[1]["place"]).stdout.splitlines()]
    assert [each["id"] for each in rest] == [each["id"] for each in first[2:]]


def test_only_the_nodes_that_were_asked_for(run: Run, surge: Served) -> None:
    done = run("events", "--server", surge.url, "--since", "1h", "--node", "edge-7", "-o", "json")
    assert {json.loads(line)["node"] for line in done.stdout.splitlines()} == {"edge-7"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--types", "nothing.*"), "decision.recorded"),
        (("--since", "soon"), "is not a time"),
        (("--after", "yesterday"), "is not a position"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_is_a_usage_error(
    run: Run, surge: Served, arguments: tuple[str, ...], said: str
) -> None:
    done = run("events", "--server", surge.url, *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_server_it_says_so(run: Run) -> None:
    done = run("events", "-w", "--server", "http://127.0.0.1:9")
    assert done.exit_code == 1
    assert "slackwater: the stream of http://127.0.0.1:9 ended" in done.stderr


@pytest.mark.parametrize("name", KNOWN)
def test_every_type_there_is_has_words(name: str) -> None:
    payload = event_named(name)
    event = payload.from_document(sample_of(payload), no_roster)
    data = event.shown().model_dump(mode="json")
    item = {"type": name, "time": EPOCH.isoformat(), "node": "edge-7", "data": data}
    assert words_of(item)[1]
    assert line_of(item).startswith("2026-01-05 00:00:00Z  edge-7")
    folded = line_of(item, 60).splitlines()
    assert max(map(len, folded)) <= 60
    assert " ".join(folded).split() == line_of(item).split(), "nothing is cut, in particular no number"


def test_a_gap_has_its_own_wording() -> None:
    line = line_of({"type": "gap", "detail": "read the state again"}, colours=True)
    assert "read the state again" in line
    assert line.startswith("\033[31m")
