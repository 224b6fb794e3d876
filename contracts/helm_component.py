"""A workload of the manifests as the chart's values know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Component:
    """What the values say about one workload: where it is in them, and what it is in the manifests."""

    def __init__(self, name: str, path: str, workload: Mapping[str, Any]) -> None:
        self.name, self.path, self.workload = name, path, workload

    @property
    def pod(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = pod_template(self.workload)["spec"]
        return found

    @property
    def container(self) -> Mapping[str, Any]:
        containers: list[Mapping[str, Any]] = self.pod["containers"]
        (found,) = containers
        return found

    @property
    def includes(self) -> str:
        """The argument of the helpers."""
        return f'(dict "root" $ "own" $.Values.{self.path} "image" "{self.image}")'

    @property
    def of_services(self) -> str:
        """The same for a container beside it, which runs the image of the services."""
        return f'(dict "root" $ "own" $.Values.{self.path} "image" "")'

    @property
    def image(self) -> str:
        """The component whose image it runs."""
        named = str(self.container["image"]).partition(":")[0]
        return {"slackwater": "", "slackwater-agent": "agent"}.get(named, self.path)


def pod_template(workload: Mapping[str, Any]) -> Any:
    """The pod template of a workload, of a CronJob that of its Jobs."""
    spec = workload["spec"]
    return spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
