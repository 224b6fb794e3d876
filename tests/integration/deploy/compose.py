"""docker-compose.yml as containers of containers.py: what `docker compose up` would run, in its order."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from containers import DOCKER_CAPABILITIES, Bind, Container, Failed, Network, Running
from images import ROOT, Image

FILE = ROOT / "docker-compose.yml"
START_SECONDS = 180.0
KNOWN = {
    *("image", "build", "restart", "init", "read_only", "cap_drop", "cap_add", "security_opt", "logging"),
    *("environment", "user", "command", "entrypoint", "healthcheck", "network_mode", "tmpfs", "volumes"),
    *("depends_on", "mem_limit", "ports", "profiles", "pid", "cgroup", "stop_grace_period", "shm_size"),
}  # fmt: skip
"""Of these the rehearsal knows what they mean, or that they mean nothing here; another must be thought of first."""
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


class Project:
    """The services of the file, and those of them that run."""

    def __init__(
        self,
        folder: Path,
        images: Mapping[str, Image],
        variables: Mapping[str, str],
        profiles: Sequence[str] = (),
        besides: Mapping[str, Mapping[str, str]] | None = None,
        backups: Path | None = None,
    ) -> None:
        """`variables` are those of the shell; `profiles` are for `run`, nothing of them is started by `up`; `besides`
        is what an override file would add to environments; `backups` stands for ./backups beside the file."""
        self.images = images
        self.backups = backups or folder / "backups"
        self.backups.mkdir(exist_ok=True)
        self._variables = variables
        self._besides = besides or {}
        self._volumes = folder / "volumes"
        self.services: dict[str, dict[str, Any]] = {
            name: one
            for name, one in self._filled(yaml.safe_load(FILE.read_text()))["services"].items()
            if not one.get("profiles") or set(one["profiles"]) & set(profiles)
        }
        for name, one in self.services.items():
            if unknown := set(one) - KNOWN:
                raise Failed(f"docker-compose.yml: {name}: the rehearsal does not know {', '.join(unknown)}")
        self._optional = {name for name, one in self.services.items() if one.get("profiles")}
        self.network = Network(folder / "containers", {name: [name] for name in self.services})
        self.running: dict[str, Running] = {}

    def __enter__(self) -> Project:
        self.network.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.network.__exit__()

    def get(self, name: str, path: str, token: str | None = None) -> tuple[int, bytes]:
        """Status and body of a GET at a service's port. Raises OSError."""
        return self.network.get(self.running[name], 8460, path, token)

    def up(self, only: Sequence[str] | None = None) -> None:
        """Start each as soon as what it depends on is as it should be. Raises Failed."""
        waiting = list(only or set(self.services) - self._optional)
        deadline = time.monotonic() + START_SECONDS
        while waiting:
            for name in [one for one in waiting if self._may_start(one)]:
                waiting.remove(name)
                self.running[name] = self.network.start(self.container(name))
            self._none_failed()
            if time.monotonic() > deadline:
                raise Failed(f"not started within {START_SECONDS:g} s: {', '.join(waiting)}")
            time.sleep(0.1)

    def run(self, name: str, *, command: Sequence[str] | None = None) -> Running:
        """As `docker compose run --rm`: once more, to its end. Raises Failed when that is not 0."""
        running = self.network.start(self.container(name, command))
        running.ended_well()
        return running

    def health(self, name: str) -> Sequence[str] | None:
        """The command that says whether a service is well; None where the file says that there is none."""
        said = self.services[name].get("healthcheck", {})
        if said.get("disable"):
            return None
        test = said.get("test")
        if test is None:
            return self.images[self.services[name]["image"]].health or None
        assert test[0] == "CMD", test
        return list(test[1:])

    def healthy(self, name: str) -> bool:
        command = self.health(name)
        assert command is not None, f"{name} has no health check"
        return self.running[name].execute(command).returncode == 0

    def volume(self, name: str) -> Path:
        folder = self._volumes / name
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o755)
        return folder

    def container(self, name: str, command: Sequence[str] | None = None) -> Container:
        said = self.services[name]
        image = self.images[said["image"]]
        user, _, group = str(said.get("user", image.user)).partition(":")
        dropped = said.get("cap_drop") == ["ALL"]
        entrypoint = said.get("entrypoint", image.entrypoint)
        given = {key: str(value) for key, value in said.get("environment", {}).items()}
        return Container(
            name=name,
            command=[*entrypoint, *(command or said.get("command", []))],
            environment=dict(image.environment) | given | self._besides.get(name, {}),
            user=int(user),
            group=int(group),
            capabilities=[*(() if dropped else DOCKER_CAPABILITIES), *said.get("cap_add", [])],
            binds=dict(image.binds) | dict(self._mount(one, image) for one in said.get("volumes", [])),
            tmpfs=dict(one.partition(":")[::2] for one in said.get("tmpfs", [])),
            files=image.files,
            links=image.links,
            folders=image.folders,
            folder=image.folder,
            read_only=said.get("read_only", False),
            no_new_privileges="no-new-privileges:true" in said.get("security_opt", []),
            network=said.get("network_mode") != "none",
            host_processes=said.get("pid") == "host",
        )

    def _mount(self, said: str | dict[str, Any], image: Image) -> tuple[str, Bind]:
        if isinstance(said, dict):
            folder = self.volume(said["source"]) / said.get("volume", {}).get("subpath", "")
            if not folder.is_dir():
                raise Failed(f"volume {said['source']} has no folder {folder.name}: Docker would not start this")
            return said["target"], Bind(folder, said.get("read_only", False))
        source, target, *options = said.split(":")
        is_path = source.startswith(("/", "."))
        new = not is_path and "nocopy" not in options and not (self._volumes / source).exists()
        folder = Path(source) if is_path else self.volume(source)
        if new and target in image.folders:  # an empty volume becomes what the image has there
            owner, mode = image.folders[target]
            os.chown(folder, owner, owner)
            folder.chmod(mode)
        if source.startswith("."):
            assert source == "./backups", source
            folder = self.backups
        return target, Bind(folder, "ro" in options, along=is_path)

    def _may_start(self, name: str) -> bool:
        needs = self.services[name].get("depends_on", {})
        return all(self._fulfilled(one, how["condition"]) for one, how in needs.items())

    def _fulfilled(self, name: str, condition: str) -> bool:
        if name not in self.running:
            return False
        match condition:
            case "service_started":
                return True
            case "service_completed_successfully":
                return self.running[name].status() == 0
            case "service_healthy":
                return self.healthy(name)
        raise Failed(f"condition {condition} is not one of Compose's")

    def _none_failed(self) -> None:
        """Compose would try some of them again; here the first failure is one."""
        for running in self.running.values():
            if running.status() not in (None, 0):
                raise Failed(f"ended with {running.status()}: {running}")

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return _VARIABLE.sub(lambda found: self._variables.get(found[1], found[2] or ""), value)
        if isinstance(value, dict):
            return {key: self._filled(item) for key, item in value.items()}
        return [self._filled(item) for item in value] if isinstance(value, list) else value
