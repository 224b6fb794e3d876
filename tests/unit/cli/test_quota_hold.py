"""`slackwater exec --quota` waits for its claim, obeys a reclaim, and gives back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slackwater.cli.quota_columns import claim_line, estimate_text, why_lines
from slackwater.cli.quota_hold import QuotaHold
from slackwater.model.errors import Unavailable

NOW = datetime(2026, 1, 5, tzinfo=UTC)
ORDER = {
    "reason": "lender_min",
    "since": NOW.isoformat(),
    "deadline": (NOW + timedelta(seconds=5)).isoformat(),
    "for_quota": "team-b",
    "for_claim": "b0",
}


def answer(state: str, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = dict.fromkeys(("position", "queue_length", "reclaim", "estimate"))
    return {"id": "c1", "quota": "team-a", "state": state, "message": "", **plain, **more}


class Server:
    """A reader whose answers are given; an exception is raised."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str]] = []

    def get(self, path: str, params: Any = None) -> Any:
        return self.send("GET", path)

    def send(self, method: str, path: str, params: Any = None, body: object = None) -> Any:
        self.sent.append((method, path))
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


class Clock:
    """The time that the hold sees."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def hold_of(server: Any, clock: Callable[[], datetime] = Clock()) -> QuotaHold:  # noqa: B008 - the time stands still
    return QuotaHold(server, "team-a", "c1", 5.0, clock)


BODY: Mapping[str, Any] = {"tier": "prod"}


def test_it_waits_with_its_place_on_the_screen_and_then_starts(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = {"p50_seconds": 30.0, "p90_seconds": 90.0, "outcomes": 4, "hit_rate_p90": 0.75}
    server = Server(
        answer("queued", position=2, queue_length=3, message="a limit is reached", estimate=estimate),
        answer("queued", position=1, queue_length=2),
        answer("admitted"),
        answer("started"),
    )
    assert hold_of(server).acquire(BODY, lambda seconds: None)
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "slackwater exec: claim c1 of team-a: queued, 2 of 3 in the queue; a limit is reached; starts in about 30 s,"
        " 9 of 10 within 90 s (so far right for 75% of 4)"
    )
    assert [line.split(": ", 2)[2] for line in said[1:]] == ["queued, 1 of 2 in the queue", "admitted"]
    assert server.sent[-1] == ("POST", "/v1/quotas/team-a/claims/c1/start")


def test_a_claim_that_need_not_wait_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert hold_of(Server(answer("admitted"), answer("started"))).acquire(BODY)
    assert capsys.readouterr().err == ""


def test_a_place_in_the_queue_alone_is_not_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = [answer("queued", position=place, queue_length=3, message="a limit is reached") for place in (3, 2, 1)]
    assert hold_of(Server(*waiting, answer("admitted"), answer("started"))).acquire(BODY, lambda seconds: None)
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("queued, 3 of 3 in the queue; a limit is reached")
    assert second.endswith("admitted")


def test_what_is_refused_does_not_start() -> None:
    server = Server(answer("refused", message="refused: above max"))
    assert not hold_of(server).acquire(BODY)
    assert len(server.sent) == 1


def test_a_reclaim_is_sigterm_then_sigkill_at_the_deadline_and_says_for_whom(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock, sent = Clock(), list[int]()
    server = Server(
        answer("started"),
        Unavailable("away"),
        Unavailable("away"),
        answer("reclaiming", reclaim=ORDER),
        answer("reclaimed", reclaim=ORDER),
    )
    hold = hold_of(server, clock)
    for _ in range(3):
        hold.check(sent.append)
    assert sent == [], "a server that does not answer ends nothing"
    hold.check(sent.append)
    hold.check(sent.append)
    assert sent == [signal.SIGTERM]
    clock.now += timedelta(seconds=5)
    hold.check(sent.append)
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    hold.release()
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if "does not answer" in line]) == 1
    assert "is reclaimed for claim b0 of team-b" in said[1]
    assert len([line for line in said if "reclaimed" in line]) == 1


def test_a_claim_that_ended_elsewhere_ends_the_command() -> None:
    clock, sent = Clock(), list[int]()
    hold = hold_of(Server(answer("released")), clock)
    hold.check(sent.append)
    clock.now += timedelta(seconds=5)
    hold.check(sent.append)
    assert sent == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize(("command", "code"), [("sleep 30", 128 + signal.SIGTERM), ("true", 0)])
def test_a_guard_ends_a_real_command(command: str, code: int) -> None:
    script = (
        "import sys; from slackwater.agent.adapters.linux.supervise import run_unmanaged;"
        f"sys.exit(run_unmanaged({command.split()!r}, lambda send: send({int(signal.SIGTERM)})))"
    )
    path = os.pathsep.join(place for place in sys.path if place)
    # A process of its own, as exec is: a fork of one with threads (grpc's, in a whole test run) may end badly.
    done = subprocess.run([sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": path}, check=False)
    assert done.returncode == code


def test_the_sum_behind_a_runtime_is_printed_with_lenders_and_borrowers() -> None:
    dimension = {
        "resource": "cpu",
        "total": 10_000,
        "min": 6_000,
        "scaled_min": 4_000,
        "guaranteed": 0,
        "entitled": 6_000,
        "request": 9_000,
        "weight": 1_000,
        "first": 4_000,
        "runtime": 6_500,
        "used": 7_000,
        "borrowed": 500,
        "lent": 0,
        "owed": 0,
        "rounds": [{"pool": 5_000, "weights": 2_000, "given": 2_500, "returned": 0}],
        "lenders": {"team-b": 500},
        "borrowers": {"team-a": 500},
    }
    answered = {"quota": "team-a", "parent": "root", "tree": "default", "since": None, "next_reclaims": []}
    lines = list(why_lines({**answered, "dimensions": [dimension]}))
    assert lines[2:] == [
        "cpu: runtime 6.5 of 10 that root has",
        "  first      4  requests 9, min 4, scaled down from 6",
        "  round 1  2.5  weight 1 of 2 in a rest of 5",
        "  runtime  6.5",
        "  entitled 6, used 7, borrowed 0.5, lent 0, owed 0",
        "  lent by team-b 0.5",
        "  borrowed by team-a 0.5",
    ]


def test_a_past_that_is_too_short_gives_no_estimate() -> None:
    assert "does not reach" in estimate_text({"p50_seconds": None})
    shrank = answer("reclaiming", reclaim={**ORDER, "for_claim": "", "for_quota": ""})
    assert "for the pool, which shrank" in claim_line(shrank)
