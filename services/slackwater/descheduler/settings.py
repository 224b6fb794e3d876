"""Settings of the descheduler: SLACKWATER_DESCHEDULER_<NAME>."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class DeschedulerSettings(BaseSettings):
    """How often it looks whether a cycle is due. Everything else is in DeschedulerProfiles."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_DESCHEDULER_", frozen=True)

    tick_seconds: float = Field(
        1.0, ge=0.05, le=60, description="how often it is checked whether a cycle of a profile is due"
    )
    cpu_headroom_share: float = Field(
        0.8,
        gt=0,
        le=10,
        description="of a node's CPU: what the predicted load may take with a move by reservation; as "
        "SLACKWATER_MIGRATION_CPU_HEADROOM_SHARE, or moves are proposed that no node takes",
    )
    memory_headroom_share: float = Field(
        0.85,
        gt=0,
        le=1,
        description="of a node's memory: the same, as SLACKWATER_MIGRATION_MEMORY_HEADROOM_SHARE",
    )
    collapse_ratio: float = Field(
        0.5, ge=0, le=1, description="an offer below this share of the one before starts cycles as a collapsed offer"
    )
