"""Roles for the custom resources. Kubernetes adds the viewer's rights to its own role view; the others are bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from slackwater.resources.crd.definition import GROUP
from slackwater.resources.kind import Kind

_READS: Final = ("get", "list", "watch")
_CHANGES: Final = ("create", "update", "patch", "delete")
_ROLES: Final[Sequence[tuple[str, str, Sequence[str]]]] = (
    ("viewer", "view", _READS),
    ("operator", "", _CHANGES),
    ("admin", "", ("deletecollection",)),
)
"""Role, Kubernetes' own role that gets its rights, and the verbs that it adds. Documents decide about nodes and pods of
all tenants, so that `edit` and `admin`, which tenants have, do not reach them."""


def role_objects(kinds: Sequence[Kind]) -> list[dict[str, Any]]:
    """ClusterRoles with the roles of the API: viewer, operator, admin. Each is whole by itself."""
    made, verbs = list[dict[str, Any]](), list[str]()
    for role, aggregated_to, added in _ROLES:
        verbs += added
        made.append(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": f"slackwater-{role}", "labels": _labels(aggregated_to)},
                "rules": [{"apiGroups": [GROUP], "resources": [kind.plural for kind in kinds], "verbs": list(verbs)}],
            }
        )
    return made


def _labels(aggregated_to: str) -> Mapping[str, str]:
    labels = {"app.kubernetes.io/name": "slackwater", "app.kubernetes.io/part-of": "slackwater"}
    return labels | ({f"rbac.authorization.k8s.io/aggregate-to-{aggregated_to}": "true"} if aggregated_to else {})
