"""Range queries of the Prometheus HTTP API, paged by time and retried a bounded number of times.

Prometheus refuses a query of more than 11,000 points per series. A page has far fewer, so that an answer with many
series stays small. A server that refuses a page for its size (`--query.max-samples`) or takes too long is asked for
half of it, and so on. See https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from slackwater.client.bounded_answers import AnswerTooLarge
from slackwater.model.errors import InvalidInput, Misconfigured, SlackwaterError, Unavailable
from slackwater.model.json_text import parse_json_text
from slackwater.model.plurals import counted

MOST_POINTS = 11_000
PAGE_POINTS = 250
RETRIED = frozenset({429, 500, 502, 503, 504})
LONGEST_PAUSE_SECONDS = 30.0
_SHOWN = 100
_NO_TLS = "WRONG_VERSION_NUMBER"
"""OpenSSL's word for a server that answers a TLS handshake in plain text."""
_REFUSED_FOR_SIZE = re.compile(r"too many samples|maximum number of|exceed|limit", re.IGNORECASE)
"""In errors of evaluation (422): Prometheus names its samples, servers with its API their own limits."""

Labels = Mapping[str, str]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Points:
    """The points of one series in order of time: seconds since 1970, and values."""

    at: Floats
    value: Floats

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range from the first to the last point, inclusive, in seconds since 1970."""

    start: int
    end: int
    step: int

    def __post_init__(self) -> None:
        if self.step < 1 or self.end < self.start:
            raise InvalidInput(
                f"--since: the range from {self.start} to {self.end} is empty; give an earlier start", field="since"
            )

    @property
    def count(self) -> int:
        """The number of points."""
        return (self.end - self.start) // self.step + 1

    def pages(self, points: int = PAGE_POINTS) -> Iterator[TimeRange]:
        """Yields consecutive ranges of at most `points` points each, without gaps or overlaps."""
        begin = self.start
        while begin <= self.end:
            end = min(self.end, begin + (points - 1) * self.step)
            yield TimeRange(begin, end, self.step)
            begin = end + self.step


class _SmallerPage(Exception):
    """A page was refused for its size, or its answer took too long (`is_slow`); `error` if no smaller one helps."""

    def __init__(self, error: SlackwaterError, *, is_slow: bool) -> None:
        super().__init__(str(error))
        self.error, self.is_slow = error, is_slow


@dataclass(slots=True)
class Prometheus:
    """A Prometheus server. `warnings` are the distinct warnings of its answers."""

    client: httpx2.Client
    retries: int = 3
    pause: Callable[[float], None] = time.sleep
    advance: Callable[[], None] = lambda: None
    """Called after every page."""
    warnings: list[str] = field(default_factory=list)
    points: int = PAGE_POINTS
    """How many points of a series are asked for at once; halved where the server refuses so many."""

    def range(self, query: str, span: TimeRange) -> dict[tuple[tuple[str, str], ...], Points]:
        """Returns every series by its labels, in order of time. Raises Unavailable, Misconfigured, InvalidInput."""
        parts: dict[tuple[tuple[str, str], ...], list[Floats]] = {}
        for page in span.pages():
            for series in self._parts(query, page):
                try:
                    labels = tuple(sorted((str(k), str(v)) for k, v in series["metric"].items()))
                    points = np.array([(float(at), float(value)) for at, value in series["values"]], np.float64)
                except (KeyError, TypeError, ValueError, AttributeError):
                    raise Misconfigured(
                        f"{self.client.base_url}: the answer is not from a Prometheus: expected series with metric"
                        f" and values, not {str(series)[:_SHOWN]}; the query was {query}"
                    ) from None
                parts.setdefault(labels, []).append(points.reshape(-1, 2))
            self.advance()
        return {labels: Points(*np.concatenate(pages).T) for labels, pages in parts.items()}

    def _parts(self, query: str, page: TimeRange) -> Iterator[dict[str, Any]]:
        """Yields the series of a page, asked for in smaller pages if need be. A series comes once for each of them."""
        begin, slow = page.start, 0
        while begin <= page.end:
            part = next(TimeRange(begin, page.end, page.step).pages(self.points))
            try:
                found = self._page(query, part)
            except _SmallerPage as refusal:
                slow += refusal.is_slow
                if part.count == 1 or slow > self.retries:
                    raise refusal.error from None
                self.points = part.count // 2
                continue
            yield from found
            begin, slow = part.end + part.step, 0

    def _page(self, query: str, page: TimeRange) -> list[dict[str, Any]]:
        form = {"query": query, "start": str(page.start), "end": str(page.end), "step": str(page.step)}
        answer = self._ask("/api/v1/query_range", form)
        for severity in ("warnings", "infos"):
            messages = answer.get(severity)
            for text in map(str, messages if isinstance(messages, list) else []):
                if text not in self.warnings:
                    self.warnings.append(text)
        data = answer.get("data")
        if not isinstance(data, dict) or data.get("resultType") != "matrix" or not isinstance(data.get("result"), list):
            raise Misconfigured(f"{self.client.base_url}: the answer is not from a Prometheus: it contains no matrix")
        return list(data["result"])

    def _ask(self, path: str, form: Mapping[str, str]) -> dict[str, Any]:
        """Returns the answer of a successful request. Retries requests that failed temporarily. Raises _SmallerPage."""
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                response = self.client.post(path, data=dict(form))
            except AnswerTooLarge as error:
                raise _SmallerPage(self._no_answer(error, attempt + 1), is_slow=False) from None
            except httpx2.ReadTimeout as error:
                raise _SmallerPage(self._no_answer(error, attempt + 1), is_slow=True) from None
            except httpx2.HTTPError as error:
                if last or _NO_TLS in str(error):
                    raise self._no_answer(error, attempt + 1) from None
            else:
                answer = _answer(response)
                self._refuse_size(response.status_code, answer)
                if response.status_code not in RETRIED or last:
                    return self._read(response, answer, attempt + 1)
            self.pause(min(LONGEST_PAUSE_SECONDS, 0.5 * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def _no_answer(self, error: httpx2.HTTPError, tries: int) -> Unavailable:
        reason = str(error) or type(error).__name__
        ending = f" ({counted(tries, 'try', 'tries')})"
        if isinstance(error, httpx2.ReadTimeout):
            ending = f"; {self.points} points at a time, --timeout gives it longer"
        elif _NO_TLS in reason:
            ending = "; it speaks no TLS there: give http://"
        return Unavailable(f"no answer from {self.client.base_url}: {reason}{ending}")

    def _refuse_size(self, status: int, answer: Mapping[str, Any]) -> None:
        """Raises _SmallerPage if fewer points may be answered."""
        message = _problem(answer)
        place = f"{self.client.base_url}: {message or f'HTTP {status}'}"
        if status == 422 and _REFUSED_FOR_SIZE.search(message):
            advice = "even a single point is too much; raise the server's limit (--query.max-samples)"
            raise _SmallerPage(Misconfigured(f"{place}; {advice}"), is_slow=False)
        if status == 504 or (status == 503 and answer.get("errorType") == "timeout"):
            raise _SmallerPage(Unavailable(f"{place} ({self.points} points at a time)"), is_slow=True)

    def _read(self, response: httpx2.Response, answer: Mapping[str, Any], tries: int) -> dict[str, Any]:
        base, problem = self.client.base_url, _problem(answer)
        if response.status_code in (401, 403):
            if "authorization" in self.client.headers or self.client.auth is not None:
                raise Misconfigured(f"{base}: HTTP {response.status_code}: the given credentials were refused")
            proof = "--bearer-token-file, https://USER:PASSWORD@HOST, or --prometheus-cert and --prometheus-key"
            raise Misconfigured(f"{base}: HTTP {response.status_code}; give {proof}")
        if response.status_code in RETRIED:
            raise Unavailable(f"{base}: HTTP {response.status_code} {problem} ({tries} tries)".replace("  ", " "))
        if (place := response.headers.get("location")) is not None:
            there = httpx2.URL(place).copy_with(query=None)  # a query may hold the secrets of a login
            raise Misconfigured(f"{base}: HTTP {response.status_code}: it moved to {there}; check the address")
        if response.is_error or answer.get("status") != "success":
            message = problem or f"HTTP {response.status_code}, and not a Prometheus answer; check the address"
            raise Misconfigured(f"{base}: {message}")
        return dict(answer)


def _answer(response: httpx2.Response) -> Mapping[str, Any]:
    """The JSON object of a response; empty if it is none."""
    try:
        answer = parse_json_text(response.content)
    except ValueError:
        answer = {}
    return answer if isinstance(answer, dict) else {}


def _problem(answer: Mapping[str, Any]) -> str:
    return f"{answer.get('errorType', 'error')}: {answer['error']}" if answer.get("error") else ""
