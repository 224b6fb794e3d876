"""Generates from services.yaml what names every service: compose file, values of the chart, import contracts, reference
page.

A file that also holds other things has a generated block between two marker lines.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from slackwater.runtime.service_list import ServiceList, ServiceSpec
from slackwater.runtime.settings import USUAL_PORT, USUAL_RPC_PORT

VALUES = Path("deploy/helm/slackwater/values.yaml")
VALUES_SCHEMA = VALUES.with_name("values.schema.json")
SOURCE = "contracts/services.yaml"
_SERVICE_VALUES = '{"$ref": "#/definitions/service"}'


def deployment_files(root: Path, services: ServiceList) -> Mapping[Path, str]:
    """Every generated file with its text, by path below `root`. Reads those of which only a part is generated."""

    def changed(path: str | Path, change: Callable[[str, ServiceList], str]) -> tuple[Path, str]:
        return Path(path), change((root / path).read_text(), services)

    return dict(
        [
            changed("docker-compose.yml", _compose),
            changed(VALUES, _values),
            changed(VALUES_SCHEMA, _values_schema),
            changed(".importlinter", _import_contracts),
            (Path("docs/reference/services.md"), services_page(services)),
        ]
    )


def _compose(text: str, services: ServiceList) -> str:
    blocks = (_compose_service(name, spec) for name, spec in services.services.items())
    return _with_block(text, "services", textwrap.indent("\n".join(blocks), "  "))


def _compose_service(name: str, spec: ServiceSpec) -> str:
    lines = [
        f"{name}:",
        "  <<: *slackwater",
        f'  command: [run, {name}, --port, "{USUAL_PORT}"]',
        "  environment:",
        "    <<: *environment",
    ]
    if "issue_access" in spec.rights:
        lines.append("    SLACKWATER_NATS_AUTHORITY_FILE: /run/secrets/slackwater/access.seed")
    if spec.public:
        lines += [
            "    SLACKWATER_GRPC_HOST: 0.0.0.0",
            f'    SLACKWATER_GRPC_PORT: "{USUAL_RPC_PORT}"',
            "  ports:",
            f'    - "127.0.0.1:${{SLACKWATER_PORT:-{USUAL_PORT}}}:{USUAL_PORT}"',
            f'    - "127.0.0.1:${{SLACKWATER_RPC_PORT:-{USUAL_RPC_PORT}}}:{USUAL_RPC_PORT}"',
        ]
    memory = spec.limits.memory.removesuffix("i").lower()
    secrets = f"target: /run/secrets/slackwater, read_only: true, volume: {{nocopy: true, subpath: {name}}}"
    lines += [
        "  depends_on: *needs",
        f"  mem_limit: {memory}",
        "  tmpfs: *scratch",
        "  volumes:",
        f"    - {{type: volume, source: secrets, {secrets}}}",
        "",
    ]
    return "\n".join(lines)


def _values(text: str, services: ServiceList) -> str:
    """Each service of the chart, with its amounts."""
    blocks = (_service_values(name, spec) for name, spec in services.services.items())
    return _with_block(text, "services", "".join(blocks))


def _service_values(name: str, spec: ServiceSpec) -> str:
    return (
        f"  {name}:\n"
        "    enabled: true\n"
        f"    replicas: {spec.replicas}\n"
        "    podDisruptionBudget: {enabled: true, minAvailable: 1}\n"
        "    resources:\n"
        f"      requests: {{cpu: {_cpu(spec.requests.cpu)}, memory: {spec.requests.memory}}}\n"
        f"      limits: {{cpu: {_cpu(spec.limits.cpu)}, memory: {spec.limits.memory}}}\n"
    )


def _values_schema(text: str, services: ServiceList) -> str:
    """The names of services that the chart's values may have."""
    lines = ",".join(f'\n        "{name}": {_SERVICE_VALUES}' for name in services.services)
    return re.sub(rf'(,?\n *"[a-z]+": {re.escape(_SERVICE_VALUES)})+', lines, text)


def _import_contracts(text: str, services: ServiceList) -> str:
    deployables = sorted((*services.deployed, *services.node_services))
    for name, packages in {
        "packages": sorted(services.packages),
        "services": deployables,
        "services below tools": deployables,
        "tools": sorted(services.tools),
    }.items():
        text = _with_block(text, name, "".join(f"    slackwater.{package}\n" for package in packages))
    return text


def _with_block(text: str, name: str, lines: str) -> str:
    """The text with these lines between the markers of a block. Raises ValueError where there are none."""
    marker = rf"[ ]*# generated from {re.escape(SOURCE)}: {name}\n"
    pattern = rf"(?P<begin>^{marker})(?P<lines>(?:.*\n)*?)(?P<end>^[ ]*# end of {name}\n)"
    changed, count = re.subn(pattern, lambda m: f"{m['begin']}{lines}{m['end']}", text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{count} blocks are marked `# generated from {SOURCE}: {name}`, not one")
    return changed


def services_page(services: ServiceList) -> str:
    """The reference page of services."""
    rows = [
        f"| `{name}` | {spec.role}{_extras(spec)} | {'partitions' if spec.partitions else 'consumers'} |"
        f" {spec.replicas} | {spec.nice} | {_amounts(spec)} |"
        for name, spec in services.services.items()
    ]
    clusters = [
        f"- `{name}`: {spec.role}{_extras(spec)}; {spec.replicas} replicas share the partitions; {_amounts(spec)}"
        for name, spec in services.cluster_services.items()
    ]
    return "\n".join(
        [
            "# Services",
            "",
            f"Generated by contracts/generate.py from {SOURCE}, like compose file, values of the chart and import",
            "contracts. Events: [flow](../../contracts/flow.md). The PostgreSQL schema has the service's name.",
            "",
            "| service | role | replicas share | replicas | nice | CPU, memory: requests; limits |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            "With a Kubernetes API server only ([how to](../how-to/kubernetes-adapter.md)):",
            "",
            *clusters,
            "",
            "One per node:",
            "",
            *_roles(services.node_services),
            "",
            "No services:",
            "",
            *_roles(services.tools),
            "",
        ]
    )


def _roles(roles: Mapping[str, str]) -> Iterable[str]:
    return (f"- `{name}`: {role}" for name, role in roles.items())


def _amounts(spec: ServiceSpec) -> str:
    return f"{spec.requests.cpu}, {spec.requests.memory}; {spec.limits.cpu}, {spec.limits.memory}"


def _extras(spec: ServiceSpec) -> str:
    rights = {
        "read_streams": "reads every stream",
        "operate": "replays dead letters",
        "issue_access": "gives agents their credentials",
    }
    found = [*(["public"] if spec.public else []), *(rights[right] for right in spec.rights)]
    return "".join(f"; {extra}" for extra in found)


def _cpu(amount: str) -> str:
    return amount if amount.endswith("m") else f'"{amount}"'
