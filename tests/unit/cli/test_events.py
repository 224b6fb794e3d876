"""`slackwater events` against a console that tells the story, and its lines for every type there is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import httpx2
import pytest
from click.testing import Result
from samples import sample_of
from served import Served, served

from slackwater.bus.admin.streams import event_named
from slackwater.cli.event_stream import Follower, parsed
from slackwater.cli.events import line_of, words_of
from slackwater.console.edge.stream_routes import KNOWN
from slackwater.model.errors import InvalidInput, Unavailable
from slackwater.testing.clock import EPOCH
from slackwater.testing.story import SURGE

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


def test_a_follower_goes_on_by_itself_where_the_server_ended_it() -> None:
    with served(SURGE[0]) as living, httpx2.Client(base_url=living.url, trust_env=False) as client:
        before = len(living.bus.published)
        wanted = ("intent.observed", "decision.recorded")

        def expected() -> list[str]:
            return [event.id for event in living.bus.published[before:] if event.data.TYPE in wanted]

        said: list[str] = []
        follower = Follower(client, {"types": "intent.observed,decision.recorded"}, said.append, pause_seconds=0.01)
        found: list[str] = []
        closings = 0

        def tell() -> None:
            for _ in range(3):
                while not living.streams.open:
                    threading.Event().wait(0.01)
                living.tell(10)
                living.loop.call_soon_threadsafe(living.streams.close)
                while living.streams.open:
                    threading.Event().wait(0.01)
                living.tell(5)  # without a reader

        telling = threading.Thread(target=tell)
        telling.start()
        for sent in follower:
            closings += sent.name == "closing"
            found += [sent.data["id"]] if "id" in sent.data else []
            if closings == 3:
                break
        telling.join()
        rest = iter(follower)
        while found != expected():
            found.append(next(rest).data["id"])
            assert found == expected()[: len(found)]


def test_events_are_parsed_out_of_lines_and_ids_alone_move_the_place_on() -> None:
    lines = [
        "retry: 2000",
        "id: A:1",
        ": open",
        "",
        ": alive",
        "",
        "id: A:2",
        "event: x",
        'data: {"n":1}',
        "",
        "id: A:9",
        "",
    ]
    found = [(sent.place, sent.name, dict(sent.data)) for sent in parsed(lines)]
    assert found == [("A:1", "", {}), ("A:1", "", {}), ("A:2", "x", {"n": 1}), ("A:9", "", {})]


@pytest.mark.parametrize("name", KNOWN)
def test_every_type_there_is_has_words(name: str) -> None:
    payload = event_named(name)
    data = payload.model_validate(sample_of(payload)).model_dump(mode="json")
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


def test_a_follower_raises_what_the_server_refuses() -> None:
    with (
        served(1) as living,
        httpx2.Client(base_url=living.url, trust_env=False) as client,
        pytest.raises(InvalidInput, match="names no event type"),
    ):
        next(iter(Follower(client, {"types": "x"}, print)))


def test_a_follower_that_never_got_an_answer_says_so() -> None:
    with httpx2.Client(base_url="http://127.0.0.1:9") as client, pytest.raises(Unavailable):
        next(iter(Follower(client, {}, print)))
