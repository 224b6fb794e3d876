"""Settings of ingestion, e.g. SLACKWATER_INGESTION_WINDOW_SECONDS=5."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class IngestionSettings(BaseSettings):
    """Defaults suit agents that report every 5 s."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_INGESTION_", frozen=True)

    report_interval_seconds: float = Field(default=5.0, gt=0)
    """Expected interval between an agent's reports."""
    stale_intervals: float = Field(default=3.0, ge=1)
    """A node is stale after this many intervals without a report."""
    lost_seconds: float = Field(default=60.0, gt=0)
    """A node is lost after this many seconds without a report."""
    gone_seconds: float = Field(default=3600.0, gt=0)
    """A lost node is deleted after this many seconds without a report, and its alert ends. A report brings it back."""
    liveness_tick_seconds: float = Field(default=2.0, gt=0)
    window_seconds: int = Field(default=60, ge=1, le=3600)
    stagger_windows: bool = True
    """Starts the windows of different nodes at different seconds, so that they do not all end at once."""
    lateness_seconds: float = Field(default=5.0, ge=0)
    """While reports are missing, a window closes at the earliest this long after its end; otherwise with the next
    report.
    """
    clock_ahead_seconds: float = Field(default=30.0, ge=0)
    """A report may be this far ahead of the server's clock."""
    clock_behind_seconds: float = Field(default=900.0, ge=0)
    """A report may be this old when it arrives. Agent and stream keep reports for minutes while ingestion is
    unavailable.
    """
    retention_days: int = Field(default=7, ge=1)
    batch: int = Field(default=500, ge=1, le=5000)
