"""Range queries of the Prometheus HTTP API, paged by time and retried a bounded number of times.

Prometheus refuses a query of more than 11,000 points per series. A page has far fewer, so that an answer with many
series stays small. See https://prometheus.io/docs/prometheus/latest/querying/api/.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from slackwater.model.errors import InvalidInput, Misconfigured, Unavailable

MOST_POINTS = 11_000
PAGE_POINTS = 250
RETRIED = frozenset({429, 500, 502, 503, 504})
LONGEST_PAUSE_SECONDS = 30.0
_SHOWN = 100

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

    def pages(self, points: int = PAGE_POINTS) -> Iterator[TimeRange]:
        """Yields consecutive ranges of at most `points` points each, without gaps or overlaps."""
        begin = self.start
        while begin <= self.end:
            end = min(self.end, begin + (points - 1) * self.step)
            yield TimeRange(begin, end, self.step)
            begin = end + self.step


@dataclass(slots=True)
class Prometheus:
    """A Prometheus server. `warnings` are the distinct warnings of its answers."""

    client: httpx2.Client
    retries: int = 3
    pause: Callable[[float], None] = time.sleep
    advance: Callable[[], None] = lambda: None
    """Called after every page."""
    warnings: list[str] = field(default_factory=list)

    def range(self, query: str, span: TimeRange) -> dict[tuple[tuple[str, str], ...], Points]:
        """Returns every series by its labels, in order of time. Raises Unavailable, Misconfigured, InvalidInput."""
        parts: dict[tuple[tuple[str, str], ...], list[Floats]] = {}
        for page in span.pages():
            for series in self._page(query, page):
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
        """Returns the answer of a successful request. Retries requests that failed temporarily."""
        for attempt in range(self.retries + 1):
            last = attempt == self.retries
            try:
                response = self.client.post(path, data=dict(form))
            except httpx2.HTTPError as error:
                if last:
                    reason = str(error) or type(error).__name__
                    raise Unavailable(
                        f"no answer from {self.client.base_url}: {reason} ({attempt + 1} tries)"
                    ) from None
            else:
                if response.status_code not in RETRIED or last:
                    return self._read(response, attempt + 1)
            self.pause(min(LONGEST_PAUSE_SECONDS, 0.5 * 2**attempt))
        raise AssertionError("the last attempt returns or raises")

    def _read(self, response: httpx2.Response, tries: int) -> dict[str, Any]:
        base = self.client.base_url
        try:
            answer = response.json()
        except ValueError:
            answer = {}
        if not isinstance(answer, dict):
            answer = {}
        if response.status_code in (401, 403):
            proof = "give --bearer-token-file, or --prometheus-cert and --prometheus-key"
            raise Misconfigured(f"{base}: HTTP {response.status_code}; {proof}")
        problem = f"{answer.get('errorType', 'error')}: {answer['error']}" if answer.get("error") else ""
        if response.status_code in RETRIED:
            raise Unavailable(f"{base}: HTTP {response.status_code} {problem} ({tries} tries)".replace("  ", " "))
        if response.is_error or answer.get("status") != "success":
            message = problem or f"HTTP {response.status_code}, and not a Prometheus answer; check the address"
            raise Misconfigured(f"{base}: {message}")
        return answer
