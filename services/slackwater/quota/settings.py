"""Settings of quota: SLACKWATER_QUOTA_<NAME>."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class QuotaSettings(BaseSettings):
    """How often trees are arbitrated, and how claims are taken back."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_QUOTA_", frozen=True)

    round_seconds: float = Field(
        1.0,
        ge=0.05,
        le=60,
        description="longest pause between two arbitrations of a tree; changes are taken up at once",
    )
