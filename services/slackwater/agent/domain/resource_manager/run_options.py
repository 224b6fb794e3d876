"""From allocations to what a container starts with: properties of the runtime, environment, annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slackwater.agent.domain.resource_manager.messages import Allocated
from slackwater.model.errors import InvalidInput

OCI_PROPERTIES: Mapping[str, type] = {
    "CpusetCpus": str,
    "CpusetMems": str,
    "CpuPeriod": int,
    "CpuQuota": int,
    "CpuShares": int,
    "MemoryLimitInBytes": int,
    "MemorySwapLimitInBytes": int,
    "OomScoreAdj": int,
}
"""Fields of the CRI's LinuxContainerResources, and what they hold."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`conflicts`: a sentence for each value that another resource set otherwise; the first resource by name counts."""

    resources: Mapping[str, str | int] = field(default_factory=dict)
    envs: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()


def run_options(allocated: Allocated) -> RunOptions:
    """Returns what a container with these allocations starts with. Raises InvalidInput for an unknown property, or a
    number that is none.
    """
    resources: dict[str, str | int] = {}
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    conflicts: list[str] = []
    for resource, allocation in sorted(allocated.items()):
        properties = {allocation.oci: _value(allocation.oci, allocation.result)} if allocation.oci else {}
        parts: tuple[tuple[str, dict[str, str | int] | dict[str, str], Mapping[str, str | int]], ...] = (
            ("property", resources, properties),
            ("environment", envs, allocation.envs),
            ("annotation", annotations, allocation.annotations),
        )
        for kind, merged, values in parts:
            for name, value in values.items():
                if merged.setdefault(name, value) != value:  # type: ignore[arg-type]  # the value of its own part
                    conflicts.append(f"{kind} {name}: {resource} sets {value!r}, and {merged[name]!r} counts")
    return RunOptions(resources, envs, annotations, tuple(conflicts))


def _value(name: str, text: str) -> str | int:
    kind = OCI_PROPERTIES.get(name)
    if kind is None:
        raise InvalidInput(f"oci_property_name: {name[:40]!r}; allowed: {', '.join(OCI_PROPERTIES)}", field=name[:40])
    if kind is str:
        return text
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        raise InvalidInput(f"{name}: {text[:40]!r} is no whole number", field=name)
    return int(text)
