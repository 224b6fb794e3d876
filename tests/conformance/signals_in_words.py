"""Series that the vectors tell in words: formulas over t or i, and the few sentences that they use beside them."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST = 1_000_000
_LONGEST = 500
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PERIODS = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[[Any], Any]] = {"sin": np.sin, "cos": np.cos}


class UnreadableError(Exception):
    """The words of a series are not among those that are understood."""


def signal_of(text: str) -> tuple[Floats, float]:
    """The samples and their interval in seconds (60 where none is given). Raises UnreadableError."""
    if len(text) > _LONGEST:
        raise UnreadableError(f"{text[:40]!r}… is too long")
    for read in (_by_time, _by_place, _of_days, _constant, _uniform):
        found = read(text.strip())
        if found is not None:
            if not np.isfinite(found[0]).all():
                raise UnreadableError(f"{text!r} is not finite")
            return found
    raise UnreadableError(f"{text!r}")


def _by_time(text: str) -> tuple[Floats, float] | None:
    """`10*cos(2*pi*25*t), t=0..1s, rate 1000Hz`; `sum_{h in 1,3} sin(h*t)/h, rate 1000Hz, 1s`; `sin(4*pi*t)+3`."""
    if not re.search(r"\bt\b", text):
        return None
    rate, seconds = re.search(r"rate (\d{1,6}) ?Hz", text), re.search(r"(?:t=0\.\.|, )(\d{1,4})s\b", text)
    hertz, length = int(rate[1]) if rate else 1000, int(seconds[1]) if seconds else 1
    if not 0 < hertz * length <= _MOST:
        raise UnreadableError(f"{text!r} has more than {_MOST} samples")
    formula = re.split(r", ?(?:t=|rate)", text)[0]
    t = np.arange(hertz * length) / hertz
    harmonics = re.match(r"sum_\{h in ([\d,]+)\} (.*)", formula)
    if not harmonics:
        return _value(formula, t=t), 1 / hertz
    terms = [_value(harmonics[2], t=t, h=float(one)) for one in harmonics[1].split(",") if one]
    return np.sum(terms, axis=0), 1 / hertz


def _by_place(text: str) -> tuple[Floats, float] | None:
    """`10+4*sin(2*pi*i/24), i<72`; `v[i]=i%100 for i<2000; v[500]=1000`; `…; samples 48..71 multiplied by 1.1`."""
    many = re.search(r"i<(\d{1,7})", text)
    if not many or int(many[1]) > _MOST:
        return None
    formula = re.split(r",? ?(?:for )?i<|, v\[", text)[0].removeprefix("v[i]=")
    series = _value(formula, i=np.arange(int(many[1]), dtype=float))
    for place, value in re.findall(r"v\[(\d{1,7})\]=(-?\d{1,9}(?:\.\d{1,9})?)", text):
        if int(place) < len(series):
            series[int(place)] = float(value)
    for first, last, factor in re.findall(
        r"samples (\d{1,7})\.\.(\d{1,7}) multiplied by (\d{1,9}(?:\.\d{1,9})?)", text
    ):
        series[int(first) : int(last) + 1] *= float(factor)
    return series, 60.0


def _of_days(text: str) -> tuple[Floats, float] | None:
    """`sine day x3 @1m (10+4*sin)`; `day sine, 3 days @1m (…)`."""
    kind = re.search(r"sine (hour|day|week)|(hour|day|week) sine", text)
    interval, repeats = (
        re.search(r"@(\d{1,4})([smh])", text),
        re.search(r"x(\d{1,3})|(\d{1,3}) (hour|day|week)s?\b", text),
    )
    if not kind or not interval or not repeats:
        return None
    step, length = int(interval[1]) * _UNITS[interval[2]], _PERIODS[kind[1] or kind[2]]
    whole = int(repeats[1]) * length if repeats[1] else int(repeats[2]) * _PERIODS[repeats[3]]
    many = round(whole / step) if step else 0
    if not 0 < many <= _MOST:
        raise UnreadableError(f"{text!r} has no or more than {_MOST} samples")
    return 10 + 4 * np.sin(2 * np.pi * np.arange(many) * step / length), step


def _constant(text: str) -> tuple[Floats, float] | None:
    """`constant`: three days by the minute."""
    return (np.full(4320, 10.0), 60.0) if text.startswith("constant") else None


def _uniform(text: str) -> tuple[Floats, float] | None:
    """`10080 uniform [0,1), then v[1000]=3.5, …`: by a generator that always gives the same."""
    many = re.match(r"(\d{1,7}) uniform \[0,1\)", text)
    if not many or int(many[1]) > _MOST:
        return None
    series = np.random.default_rng(1).random(int(many[1]))
    for place, value in re.findall(r"v\[(\d{1,7})\]=(-?\d{1,9}(?:\.\d{1,9})?)", text):
        if int(place) < len(series):
            series[int(place)] = float(value)
    return series, 60.0


def _value(formula: str, **names: Any) -> Floats:
    """A formula of numbers, + - * / % ^, sin, cos, pi and the names. Raises UnreadableError."""
    shape = next(iter(names.values())).shape
    try:
        tree = ast.parse(formula.strip().replace("^", "**"), mode="eval")
        with np.errstate(all="ignore"):
            found = np.broadcast_to(_of(tree.body, {"pi": np.pi, **names}), shape).astype(float)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError) as error:
        raise UnreadableError(f"{formula!r} is no formula") from error
    return found


def _of(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e9:
            return float(value)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_of(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_of(left, names), _of(right, names))
        case ast.Call(func=ast.Name(id=name), args=[argument]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_of(argument, names))
    raise UnreadableError("something else than numbers, + - * / % ^, sin and cos")
