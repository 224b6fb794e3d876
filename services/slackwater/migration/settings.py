"""Settings of migration: SLACKWATER_MIGRATION_<NAME>."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class MigrationSettings(BaseSettings):
    """How often moves are looked at, and how pods are asked to end. The limits are in the document ArbitrationArgs."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_MIGRATION_", frozen=True)

    round_seconds: float = Field(1.0, ge=0.05, le=60, description="pause between two looks at moves under way")
    grace_seconds: float = Field(30.0, ge=0, le=3600, description="between SIGTERM and SIGKILL of a pod that moves")
    cpu_headroom_share: float = Field(
        0.8,
        gt=0,
        le=10,
        description="of a node's CPU: what the predicted load may take with a reservation; above 1 "
        "pods move to nodes whose CPU is used up",
    )
    memory_headroom_share: float = Field(
        0.85, gt=0, le=1, description="of a node's memory: what the predicted load may take with a reservation"
    )
    keep_ended_seconds: float = Field(
        86_400.0, ge=60, le=604_800, description="how long ended jobs and their documents are kept"
    )
