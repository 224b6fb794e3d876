"""Settings of the console: SLACKWATER_CONSOLE_*."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ConsoleSettings(BaseSettings):
    """How long the read model remembers and how often an idle stream says that it is alive, in seconds."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_CONSOLE_", frozen=True)

    usage_retention_seconds: float = Field(default=24 * 3600, gt=0)
    reports_per_second: float = Field(default=200.0, gt=0)
    """So many reports are read and kept; in a larger fleet nodes take turns. Who crosses a waterline is always kept."""
    decision_retention_seconds: float = Field(default=30 * 24 * 3600, gt=0)
    heartbeat_seconds: float = Field(default=15.0, gt=0)
    offer_validity_seconds: float = Field(default=180.0, gt=0)
    """How long a platform may rely on an offer without further news: as long as colocation does on usage by default."""
    stall_seconds: float = Field(default=60.0, gt=0)
    """A reader of /v1/stream that takes nothing for so long is let go."""
    streams: int = Field(default=100, ge=1)
    """How many may read /v1/stream at once."""
