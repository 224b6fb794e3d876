"""What can be set about tally: SLACKWATER_TALLY_<NAME>."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class TallySettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SLACKWATER_TALLY_", frozen=True)

    forget_seconds: float = Field(600.0, gt=0, description="a node that was described before this is not counted")
