"""PodMigrationJob: the declaration of the kind."""

from __future__ import annotations

from typing import Final

from slackwater.resources.kind import CHANGED_BY, GENERATION, NAME, Column, Kind

POD_MIGRATION_JOB: Final = Kind(
    name="PodMigrationJob",
    plural="podmigrationjobs",
    short=("pmj", "migration", "migrations"),
    service="migration",
    model="slackwater.podmigration.documents:PodMigrationJob",
    hooks="slackwater.migration.usecases.job_documents:MigrationJobHooks",
    about="moves one pod to another node; deleting it aborts the move",
    columns=(
        NAME,
        Column("PHASE", ".status.phase"),
        Column("STEP", ".status.step"),
        Column("POD", ".status.pod"),
        Column("FROM", ".status.fromNode"),
        Column("TO", ".status.node"),
        Column("REASON", ".status.reason"),
        Column("MESSAGE", ".status.message", priority=1),
        Column("OUTCOME", ".status.outcome", priority=1),
        Column("MODE", ".spec.mode", priority=1),
        GENERATION,
        CHANGED_BY,
    ),
    example={"podRef": {"namespace": "default", "name": "web-0"}, "ttl": "10m"},
)
