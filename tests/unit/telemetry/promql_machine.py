"""As much of Prometheus as the alert rules need: samples every half minute, recording rules, alerts with their `for`.

Not here: anything that a rule under test does not use; that is refused, never guessed.
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import promql_parser as promql

STEP = 30
LOOKBACK = 300
"""Seconds between samples, and how long a sample stands for a series."""

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float
Series = Callable[[int], float | None]
"""The value of a series at a second since the start; None: it is not there."""

_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_COMPARE = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_MATCH: Mapping[str, Callable[[str, str], bool]] = {
    "MatchOp.Equal": operator.eq,
    "MatchOp.NotEqual": operator.ne,
    "MatchOp.Re": lambda value, pattern: re.fullmatch(pattern, value) is not None,
    "MatchOp.NotRe": lambda value, pattern: re.fullmatch(pattern, value) is None,
}
_AGGREGATE: Mapping[str, Callable[[Sequence[float]], float]] = {
    "sum": sum,
    "max": max,
    "min": min,
    "count": len,
    "avg": lambda values: sum(values) / len(values),
}
_OVER_TIME: Mapping[str, Callable[[Sequence[float]], float]] = {
    "avg_over_time": lambda values: sum(values) / len(values),
    "max_over_time": max,
    "min_over_time": min,
}


class Machine:
    """Rules over series that a test draws. `run` tells which alerts fire at the end, by their labels, with values."""

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        self._rules = [(rule, promql.parse(rule["expr"])) for rule in rules]
        self._samples: dict[str, dict[Labels, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))

    def run(self, series: Mapping[tuple[str, Labels], Series], seconds: int) -> dict[str, Vector]:
        active: dict[tuple[str, Labels], int] = {}
        firing: dict[str, Vector] = {}
        for now in range(0, seconds + 1, STEP):
            for (name, labels), value_at in series.items():
                if (value := value_at(now)) is not None:
                    self._samples[name][labels].append((now, value))
            firing = defaultdict(dict)
            for rule, expression in self._rules:
                found = self._vector(expression, now)
                if "record" in rule:
                    own = frozenset(rule.get("labels", {}).items())
                    for labels, value in found.items():
                        self._samples[rule["record"]][labels | own].append((now, value))
                    continue
                name = rule["alert"]
                for gone in [key for key in active if key[0] == name and key[1] not in found]:
                    del active[gone]
                for labels, value in found.items():
                    since = active.setdefault((name, labels), now)
                    if now - since >= duration(str(rule["for"])):
                        firing[name][labels] = value
        return dict(firing)

    def _vector(self, node: Any, now: int) -> Vector:
        found = self._value(node, now)
        assert isinstance(found, dict), "an alert or a record is a vector"
        return found

    def _value(self, node: Any, now: int) -> Value:
        match type(node).__name__:
            case "NumberLiteral":
                return float(node.val)
            case "ParenExpr":
                return self._value(node.expr, now)
            case "VectorSelector":
                return {labels: values[-1] for labels, values in self._window(node, now, LOOKBACK)}
            case "AggregateExpr":
                return self._aggregate(node, now)
            case "Call":
                return self._call(node, now)
            case "BinaryExpr":
                return self._binary(node, now)
            case other:
                raise NotImplementedError(other)

    def _window(self, node: Any, now: int, seconds: int) -> Iterator[tuple[Labels, list[float]]]:
        """Of each series that a selector names, the values of the last `seconds`."""
        for labels, samples in self._timed(node, now, seconds):
            yield labels, [value for _, value in samples]

    def _timed(self, node: Any, now: int, seconds: int) -> Iterator[tuple[Labels, list[tuple[int, float]]]]:
        end = now - int(node.offset.total_seconds() if node.offset else 0)
        for labels, samples in self._samples[node.name].items():
            named = dict(labels)
            if all(_MATCH[str(m.op)](named.get(m.name, ""), m.value) for m in node.matchers.matchers):
                inside = [(at, value) for at, value in samples if end - seconds < at <= end]
                if inside:
                    yield labels, inside

    def _aggregate(self, node: Any, now: int) -> Vector:
        kept = set(node.modifier.labels) if node.modifier else set()
        groups: dict[Labels, list[float]] = defaultdict(list)
        for labels, value in self._vector(node.expr, now).items():
            groups[frozenset((name, text) for name, text in labels if name in kept)].append(value)
        return {labels: float(_AGGREGATE[str(node.op)](values)) for labels, values in groups.items()}

    def _call(self, node: Any, now: int) -> Value:
        name = node.func.name
        if name == "time":
            return float(now)
        if name not in {*_OVER_TIME, "increase"}:
            raise NotImplementedError(name)
        (matrix,) = node.args
        seconds = int(matrix.range.total_seconds())
        if name == "increase":
            found = self._timed(matrix.vector_selector, now, seconds)
            return {labels: increase(samples, now - seconds, now) for labels, samples in found if len(samples) > 1}
        return {
            labels: _OVER_TIME[name](values) for labels, values in self._window(matrix.vector_selector, now, seconds)
        }

    def _binary(self, node: Any, now: int) -> Value:
        left, right, word = self._value(node.lhs, now), self._value(node.rhs, now), str(node.op)
        if word in ("and", "or", "unless"):
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            if word == "or":
                return {**right, **left}
            return {labels: value for labels, value in left.items() if (labels in right) == (word == "and")}
        if isinstance(left, float) and isinstance(right, float):
            return _ARITHMETIC[word](left, right)
        return dict(_paired(left, right, word))


def _paired(left: Value, right: Value, word: str) -> Iterator[tuple[Labels, float]]:
    every = (left if isinstance(left, dict) else right if isinstance(right, dict) else {}).keys()
    for labels in every:
        one = left.get(labels) if isinstance(left, dict) else left
        two = right.get(labels) if isinstance(right, dict) else right
        if one is None or two is None:
            continue
        if word in _COMPARE:
            if _COMPARE[word](one, two):
                yield labels, one if isinstance(left, dict) else two
        elif word != "/" or two:
            yield labels, _ARITHMETIC[word](one, two)


def increase(samples: Sequence[tuple[int, float]], begin: int, end: int) -> float:
    """As Prometheus tells it: a fall is a restart at 0, and what lies between the first and the last sample is drawn
    out to both ends of the window; by half a step only where the series begins or ends within, and never below 0."""
    first, last = samples[0], samples[-1]
    grown = last[1] - first[1] + sum(one[1] for one, two in pairwise(samples) if two[1] < one[1])
    covered = last[0] - first[0]
    step = covered / (len(samples) - 1)
    before, after = first[0] - begin, end - last[0]
    if grown > 0 and first[1] >= 0:
        before = min(before, covered * first[1] / grown)
    drawn = covered + sum(each if each < step * 1.1 else step / 2 for each in (before, after))
    return grown * drawn / covered


def duration(text: str) -> int:
    """`5m` in seconds."""
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
