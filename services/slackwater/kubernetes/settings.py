"""Settings of kubernetes: SLACKWATER_KUBERNETES_<NAME>."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from slackwater.apiserver.kind_follower import FollowPace
from slackwater.kubernetes.domain.cordon_plan import CordonEffect
from slackwater.kubernetes.domain.eviction_plan import EvictionMode
from slackwater.kubernetes.domain.status_plan import StatusPolicy
from slackwater.kubernetes.domain.webhook_certificates import CertificatePolicy
from slackwater.kubernetes.usecases.choose_admission import ProfileMode
from slackwater.profiles.mutation import SYSTEM_NAMESPACES
from slackwater.profiles.webhook import SERVICE, WebhookAddress

ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


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
    profiles: ProfileMode = Field(
        ProfileMode.AUTO,
        description="by what profiles of the cluster change pods: policy (MutatingAdmissionPolicy v1), webhook, auto"
        " (policy where the API server serves it), off",
    )
    namespace: str = Field("", description="of the webhook's Service and Secret; empty: the pod's own, else slackwater")
    agents_namespace: str = Field("slackwater-node", description="of the agents: no profile changes their pods")
    webhook_service: str = Field(SERVICE, description="name of the webhook's Service, and of its Secret")
    webhook_host: str = Field("0.0.0.0", description="address on which the webhook listens")  # noqa: S104 - see 0128
    webhook_port: int = Field(9443, ge=1, le=65_535, description="port on which the webhook listens")
    webhook_url: str = Field(
        "",
        pattern=r"^(https://[a-z0-9.-]+(:[0-9]+)?/?)?$",
        description="where the API server reaches the webhook if this service runs outside of the cluster, as"
        " https://host:9443; empty: by the Service kubernetes-webhook",
    )
    webhook_certificate_days: float = Field(
        90.0, gt=0, le=825, description="how long a certificate of the webhook is valid; replaced after two thirds"
    )
    webhook_settle_seconds: float = Field(
        60.0, gt=0, le=3600, description="pause between the steps of a rotation, for replicas and API servers to notice"
    )
    webhook_drain_seconds: float = Field(
        10.0,
        ge=0,
        le=300,
        description="how long the webhook still answers after the service is told to stop; the pod's"
        " terminationGracePeriodSeconds must be longer by 5",
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

    @field_validator("profiles", mode="before")
    @classmethod
    def _was_a_switch(cls, value: object) -> object:
        """Until 0.1 it was true or false."""
        return {"true": "auto", "1": "auto", "false": "off", "0": "off"}.get(str(value).lower(), value)

    def own_namespace(self) -> str:
        """The namespace of this service."""
        if self.namespace:
            return self.namespace
        try:
            return ACCOUNT_NAMESPACE.read_text(encoding="ascii").strip()
        except OSError:
            return "slackwater"

    def own_namespaces(self) -> tuple[str, ...]:
        """Those of the services and of the agents."""
        return tuple(filter(None, (self.own_namespace(), self.agents_namespace)))

    def address(self) -> WebhookAddress:
        """Where the API server finds the webhook."""
        return WebhookAddress(self.own_namespace(), self.webhook_url, service=self.webhook_service)

    def excluded(self) -> tuple[str, ...]:
        """The namespaces whose pods no profile changes."""
        return tuple(dict.fromkeys((*SYSTEM_NAMESPACES, *self.own_namespaces())))

    def certificates(self) -> CertificatePolicy:
        """Returns the policy of the webhook's certificates."""
        return CertificatePolicy(
            timedelta(days=self.webhook_certificate_days), timedelta(seconds=self.webhook_settle_seconds)
        )

    def pace(self) -> FollowPace:
        """Returns the pace of lists and watches."""
        return FollowPace(page_size=self.page_size)
