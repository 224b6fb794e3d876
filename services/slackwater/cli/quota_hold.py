"""`exec` with a quota: claims, waits, obeys a reclaim, and gives back."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from slackwater.agent.command import run_command
from slackwater.agent.domain.admission import Command, admit
from slackwater.cli.claim import claims_path
from slackwater.cli.client import HttpReader, running_instance
from slackwater.cli.exits import ERROR, INTERRUPTED
from slackwater.cli.output import clock_time, parse_time
from slackwater.cli.quota_columns import claim_line, reclaimer
from slackwater.model.errors import InvalidInput, SlackwaterError
from slackwater.model.identifiers import new_id

ANSWER_SECONDS = 5.0
WAIT_SECONDS = 0.5
QUOTA_LABEL, CLAIM_LABEL = "slackwater.io/quota", "slackwater.io/claim"
HOLDING = ("admitted", "started", "reclaiming")


class QuotaHold:
    """One claim of a quota, from its submission to its end."""

    def __init__(
        self, reader: HttpReader, quota: str, claim: str, grace_s: float, clock: Callable[[], datetime]
    ) -> None:
        self.claim = claim
        self._reader = reader
        self._quota = quota
        self._path = f"{claims_path(quota)}/{quote(claim, safe='')}"
        self._grace_s = grace_s
        self._clock = clock
        self._shown = ""
        self._kill_at: float | None = None
        self._is_silent = False

    def acquire(self, body: Mapping[str, Any], pause: Callable[[float], None] = time.sleep) -> bool:
        """Returns whether the claim was admitted, after it has waited for that. Raises the server's error."""
        answer = self._reader.send("POST", claims_path(self._quota), None, {**body, "id": self.claim})
        while answer["state"] == "queued":
            self._show(answer)
            pause(WAIT_SECONDS)
            answer = self._reader.get(self._path)
        self._show(answer)
        if answer["state"] not in HOLDING:
            return False
        self._reader.send("POST", f"{self._path}/start")
        return True

    def check(self, send: Callable[[int], None]) -> None:
        """Ends the command if its claim has to end: SIGTERM, then SIGKILL once the grace is over. A server that does
        not answer ends nothing."""
        now = self._clock()
        if self._kill_at is None:
            self._kill_at = self._demanded(now)
            if self._kill_at is not None:
                send(signal.SIGTERM)
        elif now.timestamp() >= self._kill_at:
            send(signal.SIGKILL)

    def release(self) -> None:
        """Give back what is held, or leave the queue."""
        try:
            answer = self._reader.send("DELETE", self._path)
        except SlackwaterError as error:
            print_notice(f"claim {self.claim} is not released: {error.message}")
            return
        if answer["reclaim"] is not None and self._kill_at is None:  # else it was said with the deadline
            print_notice(f"claim {self.claim} of {self._quota} was reclaimed for {reclaimer(answer['reclaim'])}")

    def _demanded(self, now: datetime) -> float | None:
        """The end of the grace in seconds, if the claim has to end."""
        try:
            answer = self._reader.get(self._path)
        except SlackwaterError as error:
            if not self._is_silent:
                print_notice(f"quota does not answer, the command goes on: {error.message}")
            self._is_silent = True
            return None
        self._is_silent = False
        order = answer["reclaim"]
        if answer["state"] == "reclaiming":
            print_notice(f"{self._quota} is reclaimed for {reclaimer(order)}: ends by {clock_time(order['deadline'])}")
            return max(parse_time(order["deadline"]).timestamp(), now.timestamp())
        if answer["state"] not in HOLDING:
            print_notice(f"claim {self.claim} is {answer['state']}: the command ends")
            return now.timestamp() + self._grace_s
        return None

    def _show(self, answer: Mapping[str, Any]) -> None:
        """Print why the claim waits, and its end; nothing if it need not wait. Its place in the queue alone is news on
        a terminal only."""
        line, is_queued = claim_line(answer), answer["state"] == "queued"
        if answer["state"] in HOLDING and not self._shown:
            return
        shown = line if sys.stderr.isatty() else f"{answer['state']} {answer['message']}"
        if shown == self._shown:
            return
        self._shown = shown
        if sys.stderr.isatty() and is_queued:
            sys.stderr.write(f"\r\x1b[Kslackwater exec: {line}")
            sys.stderr.flush()
        else:
            print_notice(line)


def run_claimed(
    wanted: Command,
    state_dir: Path,
    quota: str,
    *,
    claim: str | None = None,
    grace_s: float = 30.0,
    priority: int = 0,
    server: str | None = None,
) -> int:
    """Run the command while a claim of the quota holds; its exit code, 1 if the claim is refused. Raises InvalidInput
    that names the wrong flag, and the server's errors."""
    admit(wanted, new_id(), datetime.now(UTC))  # a wrong flag is told before anything waits
    with running_instance(ANSWER_SECONDS, server, state_dir) as reader:
        hold = QuotaHold(reader, quota, claim or new_id(), grace_s, lambda: datetime.now(UTC))
        body = {
            "tier": _tier(wanted.tier),
            "request": {"cpu": wanted.cpu, "memory": wanted.memory},
            "priority": priority,
            "workload": wanted.workload,
            "grace_seconds": grace_s,
        }
        labels = (*wanted.labels, f"{QUOTA_LABEL}={quota}", f"{CLAIM_LABEL}={hold.claim}")
        try:
            if not hold.acquire(body):
                return ERROR
            return run_command(replace(wanted, labels=labels), state_dir, hold.check)
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            hold.release()


def _tier(tier: str) -> str:
    if tier == "free":
        raise InvalidInput("--tier: free uses no quota; leave --quota out", field="tier")
    return tier


def print_notice(text: str) -> None:
    """Print a line to the terminal."""
    begin = "\r\x1b[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{begin}slackwater exec: {text}\n")
