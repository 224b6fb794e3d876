"""One rule of crane.json that is fed a series of samples, and the peer's own counting beside ours.

    above       calm = 0;  above = above + 1; triggered from the avoidance threshold on
    not above   calm = calm + 1;  restored in the sample in which both thresholds are reached;  above = 0 then, and
                only then

`consecutive`: a sample that is not above ends the count of those above, as with us. `level`: restored holds for every
further sample, as our restores do. `whole`: the peer compares with the waterline rounded up to a whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING
from typing import Any

from crane_pods import START, rule_of, view_of
from crane_shapes import CountersAnswer, CountersCase
from koord_batch import subsets
from shapes import answers_as, read_as
from verdicts import Adaptor, Case, Verdict, compare, differ, wanted

from slackwater.waterline.analysis.sample_counters import RuleState, judge
from slackwater.waterline.facts.amounts import exact
from slackwater.waterline.policies.quantity import quantity
from slackwater.waterline.registry.built_in import BUILT_IN

Told = Mapping[str, list[bool]]
_ANCHORS = ("consecutive-counting", "restore-level-triggered", "exact-waterline")


def counters(case: Case) -> Verdict:
    """Where the case says what is right, only that is asked for."""
    given, correct, want = case["in"], case.get("correct"), wanted(case)
    if given["avoidanceThreshold"] < 1 or given["restoreThreshold"] < 1:
        return differ("thresholds-at-least-one")
    try:
        ours = _counted(given)
    except ValueError as error:
        return Verdict("FAIL", f"in.watermark: {error}")
    if case.get("kind") == "rule_counters_v2022":  # both hold for every further sample, whatever was before
        verdict = _asked({**ours, "restored": ours["calm"]}, want)
        whole = _counted({**given, "watermark": _whole(given["watermark"])})
        same = verdict.word == "FAIL" and _asked({**whole, "restored": whole["calm"]}, want).word == "pass"
        return differ("exact-waterline") if same else verdict
    asked = correct if isinstance(correct, Mapping) else want
    verdict = _asked(ours, asked)
    if verdict.word == "FAIL" and isinstance(correct, Mapping):
        return _asked({**ours, "restored": ours["calm_again"]}, asked) if "restored" in asked else verdict
    return verdict if verdict.word == "pass" else _explained(given, ours, asked, verdict)


def _asked(ours: Told, want: Mapping[str, Any]) -> Verdict:
    asked = {key: want[key] for key in ("triggered", "restored") if key in want}
    if not asked:
        return Verdict("FAIL", "this case asks neither what is triggered nor what is restored")
    return compare({key: ours[key] for key in asked}, asked)


def _explained(given: Mapping[str, Any], ours: Told, want: Mapping[str, Any], verdict: Verdict) -> Verdict:
    """The fewest differences that turn the peer's answer into ours."""
    if _asked(peer_counts(given), want).word == "FAIL":
        return verdict
    for anchors in subsets(_ANCHORS):
        restored = ours["calm_again" if "restore-level-triggered" in anchors else "restored"]
        if _asked(peer_counts(given, anchors), {**ours, "restored": restored}).word == "pass":
            return differ(*anchors)
    return verdict


def peer_counts(given: Mapping[str, Any], ours: Sequence[str] = ()) -> dict[str, list[bool]]:
    """What the peer says of each sample, with those differences that are named decided as we do."""
    waterline = quantity(given["watermark"] if "exact-waterline" in ours else _whole(given["watermark"]))
    avoid, restore = given["avoidanceThreshold"], given["restoreThreshold"]
    is_consecutive, is_level = "consecutive-counting" in ours, "restore-level-triggered" in ours
    above = calm = 0
    in_episode = False
    found: dict[str, list[bool]] = {"triggered": [], "restored": []}
    for sample in given["samples"]:
        triggered = restored = False
        if sample is not None and exact(sample) > waterline:
            above, calm = min(above + 1, avoid), 0
            triggered = above >= avoid
            in_episode = in_episode or triggered
        elif sample is not None:
            calm = min(calm + 1, restore)
            restored = in_episode and calm >= restore
            in_episode = in_episode and (is_level or not restored)
            above = 0 if is_consecutive or restored else above
        found["triggered"].append(triggered)
        found["restored"].append(restored)
    return found


def _whole(waterline: str) -> str:
    return f"{quantity(waterline).to_integral_value(ROUND_CEILING):f}"


def _counted(given: Mapping[str, Any]) -> dict[str, list[bool]]:
    rule = rule_of(
        "cpu_total_usage",
        str(given["watermark"]),
        "any",
        avoidance_threshold=given["avoidanceThreshold"],
        restore_threshold=given["restoreThreshold"],
    )
    metric, state, seen = BUILT_IN.get("node_cpu_usage"), RuleState(rule.key), []
    for sample in given["samples"]:
        verdict = judge(rule, metric, view_of({} if sample is None else {"cpu_total_usage": sample}), state, START)
        state = verdict.state
        seen.append(verdict)
    found = {name: [getattr(one, name) for one in seen] for name in ("triggered", "restored", "calm")}
    found["calm_again"] = [one.calm and one.state.last_trigger_at is not None for one in seen]
    return found


_READ = answers_as(CountersAnswer, read_as(CountersCase, counters))
ADAPTORS: Mapping[str, Adaptor] = {"rule_counters": _READ, "rule_counters_v2022": _READ}
