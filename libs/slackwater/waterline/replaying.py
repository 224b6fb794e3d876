"""Cycles as JSON and back, without loss, and a cycle made again from the JSON of a decision record.

Raises pydantic.ValidationError on nonsense.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from pydantic import TypeAdapter

from slackwater.waterline.cycle import Options
from slackwater.waterline.execution.plan import Plan
from slackwater.waterline.facts.node import NodeView
from slackwater.waterline.guarding import GuardState, guard, release
from slackwater.waterline.policies.values import Policies
from slackwater.waterline.registry.plugins import all_metrics

VIEW: Final = TypeAdapter(NodeView)
STATE: Final = TypeAdapter(GuardState)
POLICIES: Final = TypeAdapter(Policies)
OPTIONS: Final = TypeAdapter(Options)
PLAN: Final = TypeAdapter(Plan)
TIME: Final = TypeAdapter(datetime)

REPLAY: Final = f"{__name__}:replay"
REPLAY_RELEASE: Final = f"{__name__}:replay_release"


def arguments(
    view: NodeView, state: GuardState, policies: Policies, options: Options, now: datetime, *, would: bool
) -> dict[str, Any]:
    """Those of `replay`. What has its default is left out: of a pod most has."""
    return {
        "view": VIEW.dump_python(view, mode="json", exclude_defaults=True),
        "state": STATE.dump_python(state, mode="json", exclude_defaults=True),
        "policies": POLICIES.dump_python(policies, mode="json", exclude_defaults=True),
        "options": OPTIONS.dump_python(options, mode="json", exclude_defaults=True),
        "now": TIME.dump_python(now, mode="json"),
        "would": would,
    }


def replay(*, view: Any, state: Any, policies: Any, options: Any, now: str, would: bool = False) -> Any:
    """The plan of slackwater.waterline.guarding.guard as JSON, from JSON: what is to be done, or what would be."""
    made = guard(
        VIEW.validate_python(view),
        STATE.validate_python(state),
        POLICIES.validate_python(policies),
        TIME.validate_python(now),
        OPTIONS.validate_python(options),
        all_metrics(),
    )
    return plan_json(made.cycle.would if would else made.cycle.plan)


def replay_release(*, state: Any, capacity_milli: int) -> Any:
    """The plan of slackwater.waterline.guarding.release as JSON, from JSON."""
    return plan_json(release(STATE.validate_python(state), capacity_milli)[0])


def plan_json(plan: Plan) -> Any:
    return PLAN.dump_python(plan, mode="json", exclude={"state"})
