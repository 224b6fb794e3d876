"""The arithmetic of a throttle, restore or eviction, line by line, to be checked by hand; and its effect."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slackwater.charts.units import amount, seconds
from slackwater.console.domain.candidates import GUARDING, is_carried_out
from slackwater.console.domain.views import EffectView
from slackwater.decisions.reasons import DecisionKind
from slackwater.decisions.record import DecisionRecord, Input

_PREFIX = "computed: "
_WORD = re.compile(r"[a-z_]+")


def reading(value: float | int | str | None, unit: str) -> str:
    """A measured value with its unit: `12.53 %`, `1.2 cores`, `512 bytes`, `unknown`. Ratios have four digits and
    memory every byte, so that a reading barely above its waterline differs from it, and sums add up.
    """
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if unit == "ratio":
        return f"{value * 100:.4g} %"
    if unit.startswith("byte"):
        return f"{round(value):,} {unit}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    if unit.startswith("milli"):
        return amount(round(value), unit)
    return f"{value:.4g} {unit}".strip()


def unit_of(record: DecisionRecord, metric: str) -> str:
    """The unit of a metric from the record's input of the same name; a ratio if it has none."""
    return next((entry.unit for entry in record.inputs if entry.name == metric), "ratio")


def trigger_of(record: DecisionRecord) -> Input | None:
    """The reading that the decision is about: the input before its waterline."""
    for one, following in zip(record.inputs, record.inputs[1:], strict=False):
        if following.name == "waterline":
            return one
    return None


def working_of(record: DecisionRecord) -> tuple[str, ...]:
    """Reading against waterline, the lacking amount, the gap, the sum, and the remainder. Every number is an input,
    term or result of the record, in its own unit; only what is stated as computed is computed here. Of a cycle of
    descheduling: what it read, the moves, and what was not proposed.
    """
    if record.kind is DecisionKind.DESCHEDULE:
        return _cycle(record)
    if record.kind not in GUARDING:
        return ()
    inputs = {one.name: one for one in record.inputs}
    lines = [*_crossing(record, inputs), *_rising(record, inputs)]
    lines += _formula("lacking", inputs, record)
    if "gap" in inputs:
        lines.append(_gap(inputs))
    lines += _formula("credited", inputs, record)
    return (*lines, _sum(record, inputs))


def _cycle(record: DecisionRecord) -> tuple[str, ...]:
    lines = [f"{one.name}: {one.value}" for one in record.inputs]
    return (
        *lines,
        *(f"not proposed: {alternative.what}, {alternative.rejected_because}" for alternative in record.alternatives),
    )


def _crossing(record: DecisionRecord, inputs: Mapping[str, Input]) -> list[str]:
    found, line = trigger_of(record), inputs.get("waterline")
    if found is None or line is None:
        return []
    is_above = _number(found) > _number(line)
    side = "above" if is_above else "at" if _number(found) == _number(line) else "at or below"
    text = f"{found.name} {reading(found.value, found.unit)} is {side} the waterline {reading(line.value, line.unit)}"
    counted = inputs.get("samples_above") or inputs.get("samples_calm")
    if counted is not None:
        text += f", in {counted.value} samples that it takes"
    target = inputs.get("target")
    return [text + (f"; target {reading(target.value, target.unit)}" if target is not None else "")]


def _rising(record: DecisionRecord, inputs: Mapping[str, Input]) -> list[str]:
    return [line for name in ("idle", "headroom", "may_rise") for line in _formula(name, inputs, record)]


def _formula(name: str, inputs: Mapping[str, Input], record: DecisionRecord) -> list[str]:
    """The formula with its values: `lacking = (reading - target) x capacity = 0.8 cores, where capacity is 8 cores,
    …`.
    """
    one = inputs.get(name)
    if one is None:
        return []
    formula = one.source.removeprefix(_PREFIX)
    where = ", ".join(
        f"{word} is {reading(each.value, each.unit)}" for word, each in _named_in(formula, inputs, record)
    )
    return [f"{name} = {formula} = {reading(one.value, one.unit)}" + (f", where {where}" if where else "")]


def _named_in(formula: str, inputs: Mapping[str, Input], record: DecisionRecord) -> list[tuple[str, Input]]:
    """The inputs that a formula names. `reading` is that of the trigger; for a rule without a target, `target` is the
    waterline. `requested` and the like stand for those of window and last.
    """
    trigger, line = trigger_of(record), inputs.get("waterline")
    known = dict(inputs)
    if trigger is not None:
        known["reading"] = trigger
    if line is not None:
        known.setdefault("target", line)
    words = set(_WORD.findall(formula))
    return [(name, one) for name, one in known.items() if name in words or name.rpartition("_")[0] in words - {"prod"}]


def _gap(inputs: Mapping[str, Input]) -> str:
    gap, lacking, excess = inputs["gap"], inputs.get("lacking"), inputs.get("excess_ratio")
    value = reading(gap.value, gap.unit)
    if lacking is None or excess is None:
        return f"gap = {value}"
    product = f"(1 + {excess.value}) x {reading(lacking.value, lacking.unit)}"
    most = inputs.get("releasable")
    if most is not None:
        product = f"min({product}, releasable {reading(most.value, most.unit)})"
    return f"gap = {product} = {value}"


def _sum(record: DecisionRecord, inputs: Mapping[str, Input]) -> str:
    pods = f"{len(record.actions)} pod" + ("s" if len(record.actions) != 1 else "")
    would = bool(record.actions) and not is_carried_out(record)
    if record.kind is DecisionKind.RESTORE:
        return f"given back: {reading(-record.result, record.unit)} to {pods}"
    said = f"{'would be released' if would else 'released'}: {reading(record.result, record.unit)} by {pods}"
    if "gap" not in inputs or inputs["gap"].value is None:
        return said
    minus = "gap - credited - released" if "credited" in inputs else "gap - released"
    return f"{said}; remaining = {minus}, not below 0 = {reading(record.remaining, record.unit)}"


def _number(one: Input) -> float:
    return float(one.value) if isinstance(one.value, int | float) else 0.0


def relief_of(record: DecisionRecord, effect: EffectView) -> str:
    """Relief or not, how much, after how long: `relieved: from 24 % to 3 % (21 % less), waterline 10 %; written after
    0.12 s, seen after 1.1 s`. For a restore: whether the waterline holds after it.
    """
    unit = unit_of(record, effect.metric)
    less = effect.before - effect.after
    change = f"{reading(abs(less), unit)} {'less' if less >= 0 else 'more'}"
    verdict = "relieved" if effect.relieved else "not relieved"
    if record.kind is DecisionKind.RESTORE:
        verdict = "stays at or below its waterline" if effect.relieved else "is above its waterline again"
    return (
        f"{effect.metric} {verdict}: from {reading(effect.before, unit)} to {reading(effect.after, unit)} ({change}),"
        f" waterline {reading(effect.waterline, unit)}; written after {seconds(effect.seconds_to_actuation)},"
        f" seen after {seconds(effect.seconds_to_measurement)}"
    )
