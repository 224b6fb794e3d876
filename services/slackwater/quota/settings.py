"""Settings of quota: SLACKWATER_QUOTA_<NAME>."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.fairshare.arbitration_plan import ArbitrationSettings


class QuotaSettings(BaseSettings):
    """How often trees are arbitrated, and how claims are taken back."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_QUOTA_", frozen=True)

    round_seconds: float = Field(
        1.0, ge=0.05, le=60, description="pause between two arbitrations of a tree; requests are decided about at once"
    )
    aging_seconds: float = Field(
        60.0, ge=0, le=86_400, description="how much earlier a point of priority counts in a queue; 0: priority alone"
    )
    starvation_seconds: float = Field(
        600.0, ge=1, description="the first claim of a queue that waits longer gets what becomes free until it fits"
    )
    reclaim_delay_seconds: float = Field(
        120.0, ge=0, description="how long a quota may use more than its runtime; a lender's min is not delayed"
    )
    borrow_backoff_seconds: float = Field(
        60.0, ge=0, le=3600, description="a workload that was reclaimed borrows again so much later, each time twice"
    )
    preempts: bool = Field(True, description="whether a claim may end claims of lower priority in its own quota")
    keep_ended_seconds: float = Field(
        3600.0, ge=60, le=604_800, description="how long ended claims are kept: answers, and estimates made of them"
    )

    keep_history_seconds: float = Field(
        86_400.0, ge=60, le=2_678_400, description="how long the state of each tree is kept for `why quota/NAME --at`"
    )

    def arbitration(self) -> ArbitrationSettings:
        """Returns the rules that hold for all quotas."""
        return ArbitrationSettings(
            aging_s=self.aging_seconds or None,
            starvation_s=self.starvation_seconds,
            reclaim_delay_s=self.reclaim_delay_seconds,
            borrow_backoff_s=self.borrow_backoff_seconds,
            preempts=self.preempts,
        )
