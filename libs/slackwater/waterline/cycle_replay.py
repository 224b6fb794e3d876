"""Converts cycles to JSON and back without loss, and repeats a cycle from the JSON of a decision
record.

Raises pydantic.ValidationError for invalid JSON values.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import json
from pydantic import TypeAdapter

from slackwater.decisions.record import Replay
from slackwater.model.memo import OnceByIdentity
from slackwater.waterline.analysis.scheduling import Scheduling
from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.facts.node import NodeReadings
from slackwater.waterline.node_guard import GuardResult, GuardState, guard, release, scheduling_under, with_scheduling
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.registry.plugins import all_metrics

VIEW: Final = TypeAdapter(NodeReadings)
STATE: Final = TypeAdapter(GuardState)
POLICIES: Final = TypeAdapter(Policies)
OPTIONS: Final = TypeAdapter(Options)
TIME: Final = TypeAdapter(datetime)
SCHEDULING: Final = TypeAdapter(Scheduling)

REPLAY: Final = f"{__name__}:replay"
REPLAY_RELEASE: Final = f"{__name__}:replay_release"
REPLAY_SCHEDULING: Final = f"{__name__}:replay_scheduling"
REPLAY_SCHEDULING_UNDER: Final = f"{__name__}:replay_scheduling_under"


def replay_of_cycle(
    function: str,
    view: NodeReadings,
    state: GuardState,
    policies: Policies,
    options: Options,
    now: datetime,
    *,
    would: bool,
) -> Replay:
    """Returns the replay of a cycle by `function`, REPLAY or REPLAY_SCHEDULING. Default values are omitted, because
    most of a pod's fields have one.
    """
    arguments = {
        "view": VIEW.dump_python(view, mode="json", exclude_defaults=True),
        "state": STATE.dump_python(state, mode="json", exclude_defaults=True),
        "options": OPTIONS.dump_python(options, mode="json", exclude_defaults=True),
        "now": TIME.dump_python(now, mode="json"),
        "would": would,
    }
    return Replay(function=function, arguments=arguments).sharing({"policies": policies_json(policies)})


def _dumped(policies: Policies) -> Any:
    return POLICIES.dump_python(policies, mode="json", exclude_defaults=True)


policies_json: Final = OnceByIdentity(_dumped)
"""The policies as JSON values, which no caller may change: all decisions under the same documents share them."""


def replay(*, view: Any, state: Any, policies: Any, options: Any, now: str, would: bool = False) -> Any:
    """Returns the plan of slackwater.waterline.node_guard.guard as JSON, from JSON: what is to be
    done, or what would be.
    """
    cycle = _guarded(view, state, policies, options, now).cycle
    return plan_json(cycle.dry_run if would else cycle.plan)


def replay_release(*, state: Any, capacity_milli: int) -> Any:
    """Returns the plan of slackwater.waterline.node_guard.release as JSON, from JSON."""
    return plan_json(release(STATE.validate_python(state), capacity_milli)[0])


def replay_scheduling(*, view: Any, state: Any, policies: Any, options: Any, now: str, would: bool = False) -> Any:
    """Returns whether the node is cordoned for new pods, and since which trigger, as JSON; or the
    rules that would cordon it.
    """
    cycle = _guarded(view, state, policies, options, now).cycle
    if would:
        return list(cycle.would_close)
    return SCHEDULING.dump_python(cycle.analysis.scheduling.scheduling, mode="json")


def replay_of_rules(scheduling: Scheduling, policies: Policies, options: Options, labels: Mapping[str, str]) -> Replay:
    """Returns the replay by `replay_scheduling_under`."""
    arguments = {
        "scheduling": SCHEDULING.dump_python(scheduling, mode="json", exclude_defaults=True),
        "options": OPTIONS.dump_python(options, mode="json", exclude_defaults=True),
        "labels": dict(labels),
    }
    replay = Replay(function=REPLAY_SCHEDULING_UNDER, arguments=arguments)
    return replay.sharing({"policies": policies_json(policies)})


def replay_scheduling_under(*, scheduling: Any, policies: Any, options: Any, labels: Mapping[str, str]) -> Any:
    """As `replay_scheduling`, under other rules and without a report."""
    state = with_scheduling(GuardState(), SCHEDULING.validate_python(scheduling))
    step = scheduling_under(state, POLICIES.validate_python(policies), OPTIONS.validate_python(options), labels)
    return SCHEDULING.dump_python(step.scheduling, mode="json")


def _guarded(view: Any, state: Any, policies: Any, options: Any, now: str) -> GuardResult:
    return guard(
        VIEW.validate_python(view),
        STATE.validate_python(state),
        POLICIES.validate_python(policies),
        TIME.validate_python(now),
        OPTIONS.validate_python(options),
        all_metrics(),
    )


def plan_json(plan: Plan) -> Any:
    """Returns the plan as recorded, without the next state."""
    told = {"steps": plan.steps, "spared": plan.spared, "remaining": plan.remaining}
    return json.decode(json.encode(told))
