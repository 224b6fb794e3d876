"""Settings of the console: SLACKWATER_CONSOLE_*."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ConsoleSettings(BaseSettings):
    """Retention of the read model and heartbeat interval of idle streams, in seconds."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_CONSOLE_", frozen=True)

    usage_retention_seconds: float = Field(default=24 * 3600, gt=0)
    reports_per_second: float = Field(default=200.0, gt=0)
    """The most reports read and stored per second. Nodes of a large fleet take turns of 15 s, those that a page shows
    have every report stored. A report that crosses a waterline is always stored.
    """
    decision_retention_seconds: float = Field(default=30 * 24 * 3600, gt=0)
    heartbeat_seconds: float = Field(default=15.0, gt=0)
    offer_validity_seconds: float = Field(default=180.0, gt=0)
    """How long a platform may use an offer without further updates: as long as colocation uses usage by default."""
    stall_seconds: float = Field(default=60.0, gt=0)
    """A reader of /v1/stream that takes nothing for this long is disconnected."""
    demo_state_dir: Path | None = None
    """The demo's state directory, whose last run is shown on the page /demo. `slackwater up` sets it."""
    streams: int = Field(default=100, ge=1)
    """Maximum number of concurrent readers of /v1/stream; at most half of SLACKWATER_HTTP_CONNECTIONS."""
