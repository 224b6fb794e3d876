"""contracts/services.yaml as typed, validated values: the services, and what each needs of its
deployment.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from slackwater.model.errors import Misconfigured

Right = Literal["read_streams", "operate", "issue_access"]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]{0,30}$")]
"""Also the name of a schema, a role, a DNS label, a consumer prefix and a Python package."""
_CHECKOUT = Path(__file__).parents[3] / "contracts" / "services.yaml"


class ResourceAmounts(BaseModel):
    """CPU and memory in Kubernetes notation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpu: Annotated[str, StringConstraints(pattern=r"^\d+m?$")]
    memory: Annotated[str, StringConstraints(pattern=r"^\d+(Mi|Gi)$")]


class ServiceSpec(BaseModel):
    """One service that runs on shared servers.

    `partitions`: its replicas own disjoint groups of nodes. `public`: users and platforms connect
    to it, over HTTP and gRPC. `rights` on the broker beyond its CONSUMES and PUBLISHES:
    `read_streams` reads every stream without a consumer, `operate` lists consumers and replays dead
    letters, `issue_access` gives agents their credentials. `nice` is the CPU nice value of its process.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    role: str = Field(min_length=1, max_length=80)
    database: bool = True
    partitions: bool = False
    public: bool = False
    rights: tuple[Right, ...] = ()
    replicas: int = Field(ge=2)
    nice: int = Field(default=0, ge=0, le=19)
    requests: ResourceAmounts
    limits: ResourceAmounts


class ServiceList(BaseModel):
    """All services, those of Kubernetes clusters, the services of each node, and the additional tools."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    services: Mapping[Name, ServiceSpec] = Field(min_length=1)
    cluster_services: Mapping[Name, ServiceSpec]
    """Run with a Kubernetes API server only: not part of `slackwater up` or of the compose file."""
    node_services: Mapping[Name, str]
    tools: Mapping[Name, str]

    @model_validator(mode="after")
    def _names_are_unique(self) -> ServiceList:
        if repeated := {name for name in self.packages if self.packages.count(name) > 1}:
            raise ValueError(f"named twice: {', '.join(sorted(repeated))}")
        return self

    @property
    def packages(self) -> tuple[str, ...]:
        """Returns every package below services/slackwater."""
        return (*self.deployed, *self.node_services, *self.tools)

    @property
    def deployed(self) -> Mapping[str, ServiceSpec]:
        """Returns the services that run on shared servers, also those of clusters only."""
        return {**self.services, **self.cluster_services}

    @property
    def partitioned(self) -> tuple[str, ...]:
        """Returns the services whose replicas own partitions."""
        return tuple(name for name, spec in self.services.items() if spec.partitions)


@cache
def service_list() -> ServiceList:
    """Returns the list of this installation. Raises Misconfigured."""
    packaged = files("slackwater.runtime").joinpath("services.yaml")
    if packaged.is_file():
        return parse(packaged.read_text(), str(packaged))  # an installed wheel carries its own copy
    try:
        return parse(_CHECKOUT.read_text(), str(_CHECKOUT))
    except OSError as error:
        raise Misconfigured(f"services cannot be read from {_CHECKOUT}: {error.strerror}") from error


def service_names() -> tuple[str, ...]:
    """Returns the services that run in every installation, in start order."""
    return tuple(service_list().services)


def parse(text: str, origin: str) -> ServiceList:
    """Returns the list in the text of a services.yaml; errors name `origin`. Raises
    Misconfigured.
    """
    try:
        return ServiceList.model_validate(yaml.safe_load(text))
    except (yaml.YAMLError, ValidationError) as error:
        raise Misconfigured(f"{origin}: {error}") from error
