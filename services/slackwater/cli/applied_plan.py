"""`slackwater apply --plan PLAN_ID`: proposes the moves of a kept plan, and waits until that is decided."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from slackwater.cli.plan import PLANS
from slackwater.model.errors import Conflict, Unavailable

if TYPE_CHECKING:
    from slackwater.cli.client import HttpReader

APPLYING: Final = "applying"
STALE: Final = "stale"
WAIT_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.3


def apply_plan(reader: HttpReader, plan: str, *, dry_run: bool) -> Any:
    """Returns the plan once it is applied; with `dry_run` as it is, after the same checks. Raises the server's error
    for a stale plan, Unavailable if it is not decided in time."""
    path = f"{PLANS}/{quote(plan, safe='')}"
    answer = reader.post(f"{path}/apply", {"dryRun": "true" if dry_run else None})
    until = time.monotonic() + WAIT_SECONDS
    while answer["state"] == APPLYING and not dry_run:
        if time.monotonic() > until:
            raise Unavailable(f"plan {plan} is asked for and not applied yet: `slackwater plan --id {plan}` shows it")
        time.sleep(LOOK_SECONDS)
        answer = reader.get(path)
    if answer["state"] == STALE:
        raise Conflict(f"plan {plan} is stale: {answer['why']}; make a new one", code="plan_stale")
    return answer


def applied_lines(answer: Any, *, dry_run: bool) -> list[str]:
    """What was done, and the jobs."""
    count = len(answer["steps"])
    moves = f"{count} move{'s' * (count != 1)}"
    if dry_run:
        return [f"plan {answer['id']} would be applied: {moves}"]
    jobs = [f"podmigrationjob/{step['job']} {step['namespace']}/{step['pod']}" for step in answer["steps"]]
    return [f"plan {answer['id']} {answer['state']}: {moves}", *jobs]
