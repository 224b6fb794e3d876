"""Settings of the console: SLACKWATER_CONSOLE_*."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ConsoleSettings(BaseSettings):
    """How long the read model remembers and how often an idle stream says that it is alive, in seconds."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_CONSOLE_", frozen=True)

    usage_retention_seconds: float = Field(default=24 * 3600, gt=0)
    decision_retention_seconds: float = Field(default=30 * 24 * 3600, gt=0)
    heartbeat_seconds: float = Field(default=15.0, gt=0)
    stall_seconds: float = Field(default=60.0, gt=0)
    """A reader of /v1/stream that takes nothing for so long is let go."""
    streams: int = Field(default=100, ge=1)
    """How many may read /v1/stream at once."""
