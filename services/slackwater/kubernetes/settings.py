"""Settings of kubernetes: SLACKWATER_KUBERNETES_<NAME>."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.apiserver.kind_follower import FollowPace
from slackwater.kubernetes.domain.cordon_plan import CordonEffect
from slackwater.kubernetes.domain.eviction_plan import EvictionMode
from slackwater.kubernetes.domain.status_plan import StatusPolicy


class KubernetesSettings(BaseSettings):
    """The cluster, and how offers are written to the status of its nodes."""

    model_config = SettingsConfigDict(env_prefix="SLACKWATER_KUBERNETES_", frozen=True)

    kubeconfig: str = Field("", description="file; empty: KUBECONFIG, else the pod's service account")
    context: str = Field("", description="context of the kubeconfig; empty: its current one")
    write_offers: bool = Field(True, description="whether offers are written; false withdraws what was written")
    aliases: bool = Field(False, description="write kubernetes.io/batch-* and mid-* too, as other schedulers know them")
    writes_per_second: float = Field(50.0, gt=0, le=1000, description="writes to node status of one replica")
    write_burst: int = Field(100, ge=1, le=10_000, description="writes that may be made at once after a calm time")
    orphan_seconds: float = Field(
        120.0, ge=1, description="without any offer for so long, what was written to a node is withdrawn"
    )
    refused_seconds: float = Field(
        30.0, ge=1, description="longest pause after the API server refused a write to a node"
    )
    evictions: EvictionMode = Field(
        EvictionMode.CARRY_OUT, description="carry-out; dry-run: the API server only says what it would do; off"
    )
    cordons: CordonEffect = Field(
        CordonEffect.NO_SCHEDULE, description="effect of the taint of cordoned nodes; off removes what was written"
    )
    profiles: bool = Field(
        True, description="whether profiles of the cluster are applied as its MutatingAdmissionPolicy"
    )
    documents_url: str = Field(
        "",
        description="where the services answer, as http://{service}:8460; with it the cluster's custom resources are"
        " the documents of the services; empty: they are not read",
    )
    documents_token_file: Path | None = Field(None, description="file with the token for the services; role operator")
    page_size: int = Field(500, ge=1, le=5000, description="objects per page of a list")

    def policy(self) -> StatusPolicy:
        """Returns the policy of the plan."""
        return StatusPolicy(
            enabled=self.write_offers,
            aliases=self.aliases,
            writes_per_second=self.writes_per_second,
            burst=self.write_burst,
            orphan_seconds=self.orphan_seconds,
        )

    def pace(self) -> FollowPace:
        """Returns the pace of lists and watches."""
        return FollowPace(page_size=self.page_size)
