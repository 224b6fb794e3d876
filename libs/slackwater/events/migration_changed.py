"""migration.changed: where the move of a pod is. Last value per job."""

from __future__ import annotations

import operator
from typing import ClassVar

from pydantic import Field

from slackwater.events.envelope import Payload
from slackwater.model.bounds import Count, Moment, Name, Text


class MigrationChanged(Payload):
    """The state of a PodMigrationJob after a change. `held_by` is the filter that a waiting job is held by, with
    `hold_count` of `hold_limit` in use at `hold_scope`; `outcome` says what a job that ended left behind. `reason` is
    the job's, `decision_id` the record of its last step."""

    TYPE: ClassVar[str] = "migration.changed"
    STREAM: ClassVar[str] = "STATE"
    LISTED: ClassVar[bool] = True

    job: Name
    source: Name = ""
    pod_uid: Name
    namespace: Name = ""
    pod: Name = ""
    workload: Name = ""
    node: Name = ""
    target_node: Name = ""
    replacement: Name = ""
    phase: Name
    step: Name
    reason: Name = ""
    message: Text = ""
    outcome: Name = ""
    held_by: Name = Field(default="", exclude_if=operator.not_)
    hold_scope: Name = Field(default="", exclude_if=operator.not_)
    hold_count: Count = Field(default=0, exclude_if=operator.not_)
    hold_limit: Count = Field(default=0, exclude_if=operator.not_)
    decision_id: Name = ""
    changed_at: Moment

    def key(self) -> str:
        return self.job
