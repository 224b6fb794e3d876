"""The plain manifests as containers of containers.py: what a kubelet runs, all at once and again when it fails."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from containers import DOCKER_CAPABILITIES, Bind, Container, Failed, Network, Running
from images import Image
from tests.kubernetes.manifests import release, restore

WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
RESTART_SECONDS = 1.0
_REFERENCE = re.compile(r"\$\((\w+)\)")


class Cluster:
    """One node, on which one pod of each workload runs (and more where `replicas` says so)."""

    def __init__(
        self,
        folder: Path,
        images: Mapping[str, Image],
        node: str,
        secrets: Path,
        besides: Mapping[str, Mapping[str, str]],
        replicas: Mapping[str, int],
    ) -> None:
        """`secrets` is what `slackwater secrets` wrote; `besides` is what a patch would add to environments."""
        self._folder, self._images, self._node, self.secrets = folder, images, node, secrets
        self._besides = besides
        self.workloads = {one["metadata"]["name"]: one for one in release() if one["kind"] in WORKLOADS}
        self.pods = [f"{name}-{number}" for name in self.workloads for number in range(1, 1 + replicas.get(name, 1))]
        self.workloads |= on_demand()
        later = [f"{name}-1" for name in on_demand()]
        self.network = Network(folder / "containers", {pod: _names(pod) for pod in [*self.pods, *later]})
        self.running: dict[str, Running] = {}
        self.restarts = dict.fromkeys(self.pods, 0)
        self._ended: dict[str, float] = {}

    def apply(self) -> None:
        """Start every pod at once, as `kubectl apply` does."""
        for pod in self.pods:
            self.running[pod] = self.network.start(self.container(pod))

    def run(self, name: str) -> Running:
        """A Job of a CronJob, or one that is applied by hand, to its end."""
        running = self.network.start(self.container(f"{name}-1"))
        running.wait()
        return running

    def tend(self) -> None:
        """Restart what ended with a status other than a Job's. Raises Failed for one that never becomes ready."""
        for pod, running in self.running.items():
            if running.status() is None or (running.status() == 0 and self._is_job(pod)):
                continue
            ended = self._ended.setdefault(pod, time.monotonic())
            if time.monotonic() - ended < RESTART_SECONDS:
                continue
            del self._ended[pod]
            self.restarts[pod] += 1
            if self.restarts[pod] > 15:
                raise Failed(f"ended with {running.status()} again and again: {running}")
            self.running[pod] = self.network.start(self.container(pod))

    def settled(self) -> bool:
        """Every Job is done and every other pod answers all its probes."""
        self.tend()
        return all(self._settled(pod) for pod in self.pods)

    def _settled(self, pod: str) -> bool:
        running = self.running[pod]
        if self._is_job(pod):
            return running.status() == 0
        return running.status() is None and all(self.probe(pod, one) for one in PROBES if one in self._said(pod))

    def probe(self, pod: str, name: str) -> bool:
        """As the kubelet asks: over the pod's address, or in its container."""
        probe = self._said(pod)[name]
        if "exec" in probe:
            return self.running[pod].execute(probe["exec"]["command"]).returncode == 0
        asked = probe["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self._said(pod)["ports"]}
        try:
            return self.network.get(self.running[pod], ports[asked["port"]], asked["path"])[0] == 200
        except OSError:
            return False

    def container(self, pod: str) -> Container:
        workload = self.workloads[pod.rpartition("-")[0]]
        spec, said = workload["spec"]["template"]["spec"], self._said(pod)
        image = self._images[said["image"]]
        security = spec.get("securityContext", {}) | said["securityContext"]
        capabilities = security.get("capabilities", {})
        kept = () if "ALL" in capabilities.get("drop", []) else DOCKER_CAPABILITIES
        variables = self._variables(said)
        binds, tmpfs = self._mounts(pod, workload, said)
        user, _, group = image.user.partition(":")
        if security.get("runAsNonRoot"):
            assert security["runAsUser"] != 0, pod
        return Container(
            name=pod,
            command=[*said.get("command", image.entrypoint), *(_expanded(one, variables) for one in said["args"])]
            if "args" in said
            else image.entrypoint,
            environment=dict(image.environment) | variables | self._besides.get(workload["metadata"]["name"], {}),
            user=security.get("runAsUser", int(user)),
            group=security.get("runAsGroup", int(group)),
            groups=[security["fsGroup"]] if "fsGroup" in security else [],
            capabilities=[*kept, *capabilities.get("add", [])],
            binds=dict(image.binds) | binds,
            tmpfs=tmpfs,
            files=image.files,
            links=image.links,
            folders=image.folders,
            folder=image.folder,
            read_only=security.get("readOnlyRootFilesystem", False),
            no_new_privileges=security.get("allowPrivilegeEscalation") is False,
            host_processes=spec.get("hostPID", False),
        )

    def _said(self, pod: str) -> dict[str, Any]:
        (found,) = self.workloads[pod.rpartition("-")[0]]["spec"]["template"]["spec"]["containers"]
        assert isinstance(found, dict)
        return found

    def _is_job(self, pod: str) -> bool:
        return bool(self.workloads[pod.rpartition("-")[0]]["kind"] == "Job")

    def _variables(self, said: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in said.get("env", []):
            if "valueFrom" in item:
                fields = {"spec.nodeName": self._node, "metadata.uid": f"uid-of-{said['name']}"}
                found[item["name"]] = fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
            else:
                found[item["name"]] = _expanded(item["value"], found)
        return found

    def _mounts(
        self, pod: str, workload: dict[str, Any], said: dict[str, Any]
    ) -> tuple[dict[str, Bind], dict[str, str]]:
        spec = workload["spec"]["template"]["spec"]
        group = spec.get("securityContext", {}).get("fsGroup", 0)
        claims = [one["metadata"] for one in workload["spec"].get("volumeClaimTemplates", [])]
        volumes = {one["name"]: one for one in [*spec["volumes"], *claims]}
        binds, tmpfs = {}, {}
        for mount in said["volumeMounts"]:
            volume, target = volumes[mount["name"]], mount["mountPath"]
            if "emptyDir" in volume:
                size = (volume["emptyDir"] or {}).get("sizeLimit", "64Mi").removesuffix("i").lower()
                tmpfs[target] = f"size={size},mode=0777"
                continue
            folder = self._folder / "volumes" / pod / volume["name"]
            if "secret" in volume:
                _secret(folder, self.secrets / volume["secret"]["secretName"], volume["secret"]["defaultMode"], group)
            elif "persistentVolumeClaim" in volume:
                folder = _claim(self._folder / "claims" / volume["persistentVolumeClaim"]["claimName"], group)
            elif "hostPath" in volume:
                folder = self.host_path(volume["hostPath"]["path"])
            else:
                _claim(folder, group)
            along = "hostPath" in volume and folder == Path("/sys/fs/cgroup")
            binds[target] = Bind(folder, mount.get("readOnly", False), along)
        return binds, tmpfs

    def host_path(self, path: str) -> Path:
        """A folder of the node: the kernel's is the kernel's, everything else lies below a folder of this test."""
        if path == "/sys/fs/cgroup":
            return Path(path)
        folder = self._folder / "node" / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def on_demand() -> dict[str, dict[str, Any]]:
    """The Jobs that do not run by themselves: of CronJobs, and the one applied by hand."""
    cron = [one for one in release() if one["kind"] == "CronJob"]
    found = {one["metadata"]["name"]: {**one, "spec": one["spec"]["jobTemplate"]["spec"]} for one in cron}
    return found | {one["metadata"]["name"]: one for one in restore()}


def _claim(folder: Path, group: int) -> Path:
    """A volume that outlives its pod, given to the pod's group."""
    if not folder.exists():
        folder.mkdir(parents=True)
        shutil.chown(folder, 0, group)
        folder.chmod(0o2775)
    return folder


def _names(pod: str) -> list[str]:
    """Of the Service before it; of several pods the first stands for all."""
    name, _, number = pod.rpartition("-")
    if number != "1":
        return [pod]
    return [pod, *(f"{name}{suffix}" for suffix in ("", ".slackwater", ".slackwater.svc"))]


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: variables.get(found[1], found[0]), text)


def _secret(folder: Path, source: Path, mode: int, group: int) -> None:
    """As `kubectl create secret generic NAME --from-file=FOLDER` and a volume of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.iterdir():
        if file.is_file():
            copy = folder / file.name
            shutil.copyfile(file, copy)
            shutil.chown(copy, 0, group)
            copy.chmod(mode)
    shutil.chown(folder, 0, group)
    folder.chmod(0o750)
