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
    collapse_ratio: float = Field(
        0.5, ge=0, le=1, description="an offer below this share of the one before starts cycles as a collapsed offer"
    )
