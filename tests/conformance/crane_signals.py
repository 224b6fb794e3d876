"""The suites of crane.json about series with periods: signals, their preparation, periods, estimates and errors.

Periods, spectra and errors are those of the model `periodic`. How a peer prepares a series by the minute (gaps filled,
outliers replaced) runs nowhere here, because hourly maxima of windows have neither; it stands below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from crane_shapes import Errors, Estimate, Gaps, Outliers, Peak, Signal, Spectrum, Truncated
from numpy.typing import NDArray
from shapes import Shape, answers_as, read_as
from signals_in_words import UnreadableError, signal_of
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, tolerance, wanted

from slackwater.peaks.signals import autocorrelation, filtered, find_period, is_peak, largest_by_phase, prediction_error

Floats = NDArray[np.float64]
_DAY, _WEEK, _HOUR = 86_400, 604_800, 3600
_ROUND_TRIP = "denormalize_roundtrip_rel_tol"
"""How far the peer may be off; ours comes back as it was."""
_LEAST = 0.01
"""What the peer says where its estimate is nothing."""
_MOST = 1_000_000


def _told(adaptor: Adaptor) -> Adaptor:
    """A series that is described only in unknown words is not covered, and says so."""

    def judge(case: Case) -> Verdict:
        try:
            return adaptor(case)
        except UnreadableError as error:
            return not_covered(f"a series in words: {error}")

    return judge


def _read(shape: type[Shape], adaptor: Adaptor) -> Adaptor:
    return answers_as(dict[str, Any], read_as(shape, _told(adaptor), may_be_left_out=True))


def _only(got: Mapping[str, Any], want: Mapping[str, Any], relative: float) -> Verdict:
    if unknown := sorted(set(want) - set(got)):
        return not_covered(f"answers named {', '.join(unknown)}")
    return compare({key: got[key] for key in want}, dict(want), relative=relative)


def _series(given: Mapping[str, Any]) -> tuple[Floats, float]:
    """The samples and their interval in seconds."""
    told = given.get("signal") or given.get("samples", [])
    series, interval = signal_of(told) if isinstance(told, str) and told else (np.array(told or [], float), 60.0)
    return series, float(given.get("interval_s") or interval)


def _samples(told: str | list[float]) -> Floats:
    return signal_of(told)[0] if isinstance(told, str) else np.array(told, float)


# ---- signals


def signal(case: Case) -> Verdict:
    given, want = case["in"], wanted(case)
    series, interval = _series(given)
    if not len(series):
        return _only({"num": 0, "duration_s": 0.0, "error": True}, want, 0)
    low, high = float(series.min()), float(series.max())
    half = (high - low) / 2
    normal = (series - (high + low) / 2) / half if half else np.zeros_like(series)
    got = {
        "num": len(series),
        "duration_s": len(series) * interval,
        "min": low,
        "max": high,
        "normalized_min": float(normal.min()),
        "normalized_max": float(normal.max()),
    }
    asked = {key: value for key, value in want.items() if key != _ROUND_TRIP}
    if not _near((normal * half + (high + low) / 2).tolist(), series.tolist(), 1e-9):
        return Verdict("FAIL", "what is normalised does not come back")
    return _only(got, asked, max(tolerance(case), 1e-9))


def correlated(case: Case) -> Verdict:
    series, _ = _series(case["in"])
    if not len(series):
        return _only({"r": [], "error": True}, wanted(case), 0)
    found, want = autocorrelation(series).tolist(), wanted(case)
    got = {f"r[{place}]": value for place, value in enumerate(found)} | {"r": found}
    known = {key: got.get(key) for key in want}
    near = all(_near(known[key], value, max(tolerance(case), 1e-9)) for key, value in want.items())
    return Verdict("pass") if near else Verdict("FAIL", f"got {known!r:.200}, want {want!r:.200}")


def peak(case: Case) -> Verdict:
    given = {"x": [], "i": 0, "k": 0, **case["in"]}
    if not 0 <= given["i"] < len(given["x"]):
        return _only({"peak": False}, wanted(case), 0)
    return _only({"peak": bool(is_peak(np.array(given["x"], float), given["i"], given["k"]))}, wanted(case), 0)


def truncated(case: Case) -> Verdict:
    """The last whole units; nothing of a series that is shorter than one."""
    given = _with_defaults(Truncated, case)
    unit = given["unit_minutes"] * 60 // given["interval_s"]
    whole = given["n"] // unit if unit else 0
    kept = whole * unit
    got = {"first_index": given["n"] - kept if kept else -1, "len": kept, "multiple": whole}
    return _only(got, wanted(case), 0)


# ---- preparation, as the peer does it

_LONGEST_GAP = 3600


def filled(case: Case) -> Verdict:
    given, want = _with_defaults(Gaps, case), wanted(case)
    if isinstance(given["ts"], str):
        raise UnreadableError(given["ts"])
    if len(given["ts"]) != len(given.get("v", [])):
        return Verdict("FAIL", "in.v: as many values as times are expected")
    found = fill_missing(given["ts"], given.get("v", []), given["interval_s"], given["unit_s"])
    if found is None:
        return compare("error" in want, True)
    times, values = found
    steps = np.diff(values).tolist()
    got: dict[str, Any] = {"ts": times, "v": values, "n": len(times), "first": times[0] if times else None}
    got |= {"step_s": given["interval_s"], "diff": steps[0] if steps else None}
    return _only(got, want, max(tolerance(case), 1e-9))


def fill_missing(
    times: Sequence[int], values: Sequence[float], interval: int, unit: int
) -> tuple[list[int], list[float]] | None:
    """A line through what is missing, after the last long gap; whole units from the end. None: no regular series."""
    steps = np.diff(times)
    if (steps <= 0).any():
        return None
    long = np.flatnonzero(steps > _LONGEST_GAP)
    first = int(long[-1]) + 1 if len(long) else 0
    if (steps[first:] % interval).any():
        return None
    kept = np.array(times[first:], dtype=np.int64)
    if not len(kept):
        return [], []
    if (int(kept[-1]) - int(kept[0])) // interval > _MOST:
        return None
    regular = np.arange(int(kept[0]), int(kept[-1]) + 1, interval)
    smooth = np.interp(regular, kept, np.array(values[first:], float))
    many = max(unit // interval, 1)
    whole = len(regular) // many * many
    return regular[len(regular) - whole :].tolist(), smooth[len(regular) - whole :].tolist()


def outliers(case: Case) -> Verdict:
    """Told are the places that change: `changed` by place, old and new value, or one place for several lengths."""
    given, want = _with_defaults(Outliers, case), wanted(case)
    lengths = given["n"]
    if lengths:
        after = [
            float(without_outliers(signal_of(f"{given['samples']}, i<{n}")[0])[7]) if n > 7 else None for n in lengths
        ]
        return _only({"v7_after": after}, want, 1e-9)
    series = _series(given)[0]
    kept = without_outliers(series)
    places = np.flatnonzero(kept != series).tolist()
    got: dict[str, Any] = {"changed": [[place, float(series[place]), float(kept[place])] for place in places]}
    if isinstance(given["samples"], str):
        told = [int(place) for place in re.findall(r"v\[(\d{1,7})\]=", given["samples"])]
        there = [place for place in told if 0 < place < len(kept)]
        got["each_replaced_by_previous_sample"] = [place for place in there if kept[place] == kept[place - 1]]
    return _only(got, want, 1e-9)


def without_outliers(series: Floats) -> Floats:
    """What is beyond the 0.1st or 99.9th percentile becomes the value before. The first sample stays, and of less
    than a thousand all do: the lower percentile would lie before the first."""
    low, high = _percentile(series, 0.1), _percentile(series, 99.9)
    if low is None or high is None:
        return series
    kept = series.copy()
    for place in range(1, len(kept)):
        if not low <= kept[place] <= high:
            kept[place] = kept[place - 1]
    return kept


def _percentile(series: Floats, percent: float) -> float | None:
    """The sample at that place, the mean of two where it lies between; None before the first."""
    place, ordered = percent / 100 * len(series), np.sort(series)
    if place < 1:
        return None
    at = int(place)
    return float(ordered[at - 1] if place == at else ordered[at - 1 : at + 1].mean())


# ---- periods


def period(case: Case) -> Verdict:
    """Of the whole series."""
    series, interval = _series(case["in"])
    return _period(series, interval, wanted(case), is_believed=False)


def chosen_period(case: Case) -> Verdict:
    """Of whole weeks if there are two, else of whole days if there are two; only a day or a week is one."""
    series, interval = _series(case["in"])
    for unit in (_WEEK, _DAY):
        many = round(unit / interval)
        if len(series) >= 2 * many:
            kept = series[len(series) - len(series) // many * many :]
            return _period(kept, interval, wanted(case), is_believed=True)
    return _only({"period": -1}, wanted(case), 0)


def _period(series: Floats, interval: float, want: Mapping[str, Any], *, is_believed: bool) -> Verdict:
    found = find_period(series, round(4 * _HOUR / interval)) if len(series) > 1 else None
    seconds = -1 if found is None else round(found * interval)
    if is_believed and seconds not in (_DAY, _WEEK):
        seconds = -1
    asked = want.get("period")
    return compare({"period": seconds}, {"period": _seconds(asked) if isinstance(asked, str) else asked})


def _seconds(text: str) -> int | str:
    """`24h0m0s`, `168h`, `14h36m`."""
    units = {"h": 3600, "m": 60, "s": 1}
    total, number = 0, ""
    for sign in text:
        if sign.isdecimal():
            number += sign
        elif sign in units and number and len(number) < 10:
            total, number = total + int(number) * units[sign], ""
        else:
            return text
    return total


def file(case: Case) -> Verdict:
    return not_covered("the series are in files of the peer's repository, and not in the vectors")


# ---- estimates


def spectrum(case: Case) -> Verdict:
    """The last period without weak fast lines. The peer's least estimate is 0.01; ours is nothing."""
    given, want = _with_defaults(Estimate, case), wanted(case)
    series, many = _series(given)[0], given["period_s"] // given["interval_s"]
    if not many or len(series) < many or len(series) < 2:
        return compare("error" in want, True)
    found = _filtered(series, many, given["interval_s"], given["params"])
    near = max(tolerance(case), 1e-9)
    asked = want.get("at")
    if asked is not None and not isinstance(asked, Mapping):
        return Verdict("FAIL", "out.at: an object of estimates by place is expected")
    for place, value in (asked or {}).items():
        if not (place.isdecimal() and int(place) < many and _near(found[int(place)], value, near)):
            return Verdict("FAIL", f"at {place}: want {value}")
    told = want.get("estimate")
    if asked or told is None:
        return Verdict("pass") if asked else not_covered("an estimate that is not told")
    expected = told
    if isinstance(told, str):
        expected = (series[-many:] if told.startswith("same as input samples") else signal_of(told)[0]).tolist()
    return Verdict("pass") if _near(found.tolist(), expected, near) else Verdict("FAIL", f"got {found[:4]}…")


def _with_defaults(shape: type[Shape], case: Case) -> dict[str, Any]:
    """What a case gives, with the shape's defaults for what it leaves out."""
    return shape.model_validate(case["in"]).model_dump()


def _filtered(series: Floats, many: int, interval_seconds: float, params: Mapping[str, Any]) -> Floats:
    found = filtered(
        series,
        many,
        interval_seconds=interval_seconds,
        fewest=max(params.get("minNumOfSpectrumItems", 3), 1),
        most=max(params.get("maxNumOfSpectrumItems", 100), 1),
        high_frequency=params.get("highFrequencyThreshold", 1 / 3600),
        low_amplitude=params.get("lowAmplitudeThreshold", 1.0),
    ) * (1 + params.get("marginFraction", 0.0))
    return np.where(found <= 0, _LEAST, found)


def best_estimator(case: Case) -> Verdict:
    """Returns the first of the predictors with the smallest error on the last period, which is held out."""
    given, want = _with_defaults(Estimate, case), wanted(case)
    series, many = _series(given)[0], given["period_s"] // given["interval_s"]
    if not many or len(series) < 2 * many:
        return compare("error" in want, True)
    before, last = series[:-many], series[-many:]
    errors = []
    for each in given["estimators"]:
        params = each.get("fft", each)
        margin = each.get("maxValue") if set(each) == {"maxValue"} else None
        if isinstance(margin, Mapping):
            margin = margin.get("marginFraction", 0.0)
        if isinstance(margin, int | float) and abs(margin) <= _MOST:
            estimate = largest_by_phase(before, many) * (1 + margin)
        elif isinstance(params, Mapping) and set(params) <= set(Spectrum.model_fields):
            spectral = Spectrum.model_validate(params).model_dump()
            estimate = _filtered(before, many, given["interval_s"], spectral)
        else:
            return not_covered(f"an estimator named {', '.join(each)}")
        errors.append(float(prediction_error(last, estimate)))
    if not errors:
        return Verdict("FAIL", "in.estimators: there are none")
    got = {"chosen": given["estimators"][int(np.argmin(errors))], "pe": errors}
    near = max(tolerance(case), 1e-9)
    if "pe" in want and not _near(errors, want["pe"], near):
        return Verdict("FAIL", f"pe: got {errors}, want {want['pe']}")
    return _only({**got, "pe": want.get("pe")}, want, near)


def error_of(case: Case) -> Verdict:
    given, want = _with_defaults(Errors, case), wanted(case)
    actual, told = _samples(given["actual"]), given["predicted"]
    predicted = actual if told == "actual" else _samples(told)
    if len(actual) != len(predicted) or not len(actual):
        return compare(bool(want.get("error")), True)
    error = float(prediction_error(actual, predicted))
    got = {"pe": error, "mae": float(np.abs(actual - predicted).mean()), "error": False}
    if math.isinf(error) and want.get("pe") != error:
        return differ("error-without-end")
    return _only(got, want, max(tolerance(case), 1e-9))


def _near(got: Any, want: Any, relative: float) -> bool:
    """Within `relative` of the larger, or of 1."""
    if isinstance(got, list) and isinstance(want, list):
        return len(got) == len(want) and all(_near(one, other, relative) for one, other in zip(got, want, strict=True))
    if not isinstance(got, int | float) or not isinstance(want, int | float):
        return False
    try:
        return bool(abs(got - want) <= relative * max(abs(got), abs(want), 1.0))
    except OverflowError:  # a whole number beyond what a float holds
        return False


_SUITES: Mapping[str, tuple[type[Shape], Callable[[Case], Verdict]]] = {
    "dsp_signal": (Signal, signal),
    "dsp_truncate": (Truncated, truncated),
    "dsp_autocorrelation": (Signal, correlated),
    "dsp_is_peak": (Peak, peak),
    "dsp_fill_missing": (Gaps, filled),
    "dsp_outliers": (Outliers, outliers),
    "dsp_fft_estimator": (Estimate, spectrum),
    "dsp_best_estimator": (Estimate, best_estimator),
    "dsp_find_period": (Signal, period),
    "dsp_choose_period": (Signal, chosen_period),
    "dsp_find_period_csv": (Shape, file),
    "prediction_error": (Errors, error_of),
}
ADAPTORS: Mapping[str, Adaptor] = {suite: _read(*parts) for suite, parts in _SUITES.items()}
