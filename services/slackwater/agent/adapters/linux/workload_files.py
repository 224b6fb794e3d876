"""Files that describe workloads: `<name>.yaml` in SLACKWATER_AGENT_WORKLOADS_DIR.

apiVersion: slackwater.io/v1alpha1
kind: Workload
metadata: {name: api, namespace: default, labels: {team: a}}
spec:
  command: [python3, server.py]
  environment: {PORT: "8080"}
  workingDirectory: /srv/api
  tier: prod
  cpu: 500m
  memory: 256Mi
  movable: true
  graceSeconds: 10
  ready: {address: "127.0.0.1:8080", withinSeconds: 20}
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from slackwater.agent.domain.admission import Command, admit, cpu_limit_milli
from slackwater.agent.domain.workload_template import (
    GRACE_SECONDS,
    READY_SECONDS,
    ReadyCheck,
    WorkloadTemplate,
)
from slackwater.model.errors import InvalidInput
from slackwater.model.workload_labels import TEMPLATE_LABEL, digest_of
from slackwater.runtime.owned_files import read_regular
from slackwater.runtime.yaml_files import yaml_value
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)
MOST_BYTES = 64 << 10


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, strict=True)


class _Ready(_Part):
    address: str = Field(default="", pattern=r"^$|^(\[[0-9a-fA-F:]+\]|[^:\s]+):[0-9]{1,5}$")
    command: list[str] = []
    within_seconds: float = Field(default=READY_SECONDS, gt=0, le=3600)

    @model_validator(mode="after")
    def _one_check(self) -> _Ready:
        if self.address and self.command:
            raise ValueError("address and command are both set; give one of them")
        if self.address and not 0 < int(self.address.rpartition(":")[2]) < 65536:
            raise ValueError(f"the port of {self.address} must be 1 to 65535")
        return self


class _Metadata(_Part):
    name: str
    namespace: str = "default"
    labels: dict[str, str] = {}


class _Spec(_Part):
    command: list[str] = Field(min_length=1)
    tier: Literal["prod", "mid", "batch", "free"]
    environment: dict[str, str] = {}
    working_directory: str = ""
    qos: str | None = None
    priority: int | None = None
    cpu: str = "1"
    cpu_limit: str | None = None
    memory: str = "512Mi"
    movable: bool = False
    grace_seconds: float = Field(default=GRACE_SECONDS, ge=0, le=86400)
    ready: _Ready = _Ready()


class _Document(_Part):
    api_version: Literal["slackwater.io/v1alpha1"]
    kind: Literal["Workload"]
    metadata: _Metadata
    spec: _Spec


def read_template(path: Path) -> WorkloadTemplate:
    """The workload that a file describes. Raises InvalidInput that names the file, the field and what is allowed."""
    try:
        content = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}", field=str(path)) from None
    if len(content) > MOST_BYTES:
        raise InvalidInput(f"{path}: is larger than {MOST_BYTES} bytes, the most allowed", field=str(path))
    document = yaml_value(content, str(path))
    try:
        read = _Document.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "document"
        raise InvalidInput(f"{path}: {place}: {first['msg']}", field=place) from None
    if read.metadata.name != path.stem:
        said = f"is {read.metadata.name!r}; the file is named {path.name}, so {path.stem!r} is expected"
        raise InvalidInput(f"{path}: metadata.name: {said}", field="metadata.name")
    template = _template(read, digest_of(content))
    try:  # what exec would refuse is said now, and not by a process that does not start
        admit(template.command, "uid", datetime.now(UTC))
        cpu_limit_milli(template.command)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error.message}", field=error.field) from None
    return template


def _template(read: _Document, digest: str) -> WorkloadTemplate:
    spec, ready = read.spec, read.spec.ready
    host, _, port = ready.address.rpartition(":")
    labels = {**read.metadata.labels, TEMPLATE_LABEL: digest}
    command = Command(
        tier=spec.tier,
        cpu=spec.cpu,
        memory=spec.memory,
        workload=read.metadata.name,
        qos=spec.qos,
        namespace=read.metadata.namespace,
        priority=spec.priority,
        arguments=tuple(spec.command),
        labels=tuple(f"{key}={value}" for key, value in labels.items()),
        cpu_limit=spec.cpu_limit,
    )
    return WorkloadTemplate(
        read.metadata.name,
        digest,
        command,
        spec.environment,
        spec.working_directory,
        spec.grace_seconds,
        ReadyCheck(host.strip("[]"), int(port or 0), tuple(ready.command), ready.within_seconds),
        spec.movable,
    )


@dataclass(slots=True)
class WorkloadFiles:
    """The readable files of a folder. Each is read again when it changes; one that cannot be used is logged once."""

    directory: Path
    _read: dict[Path, tuple[tuple[int, int, int], WorkloadTemplate | None]] = field(default_factory=dict)

    def path_of(self, name: str) -> Path:
        return self.directory / f"{name}.yaml"

    def templates(self) -> dict[str, WorkloadTemplate]:
        """The workloads of this machine by name, as the files are now."""
        try:
            paths = sorted(self.directory.glob("*.yaml"))
        except OSError:
            return {}
        self._read = {path: self._read[path] for path in paths if path in self._read}
        return {one.name: one for path in paths if (one := self._template(path)) is not None}

    def _template(self, path: Path) -> WorkloadTemplate | None:
        try:
            status = path.stat()
        except OSError:
            return None
        version = status.st_mtime_ns, status.st_size, status.st_ino
        known = self._read.get(path)
        if known is None or known[0] != version:
            try:
                known = version, read_template(path)
            except InvalidInput as error:
                _log.warning("workload file not usable", file=str(path), error=error.message)
                known = version, None
            self._read[path] = known
        return known[1]
