"""What stops without a right at the API server, and how the server is asked whether it is granted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

REVIEWS: Final = "apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

_READS: Final[Mapping[str, str]] = {
    "nodes": "changes of nodes are not seen, so that new nodes get no offers",
    "pods": "changes of pods are not seen: new pods are not evicted, and ends of evictions are not published",
    "namespaces": "the webhook of profiles selects namespaces by their last known labels",
    "resourcequotas": "profiles are not applied anew, unless all have limitedNamespaces: apply",
    "limitranges": "profiles are not applied anew, unless all have limitedNamespaces: apply",
    "replicasets.apps": "pods of new ReplicaSets are not known by their Deployment",
    "jobs.batch": "pods of new Jobs are not known by their CronJob",
    "poddisruptionbudgets.policy": "changes of disruption budgets are not seen; the API server holds them all the same",
    "priorityclasses.scheduling.k8s.io": "pods of new priority classes have no tier yet",
}
_WRITES: Final[Mapping[str, str]] = {
    "nodes/status": "offers are not written to nodes: amounts stay as they are",
    "nodes": "the taint of cordoned nodes is neither written nor removed",
    "pods/eviction": "evictions end as refused",
    "events.events.k8s.io": "no Kubernetes Events are written",
}
_POLICIES: Final = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_ADMISSION: Final = "admissionregistration.k8s.io"


def effect_without(right: str) -> str:
    """What stops without a right, which is named as slackwater.apiserver.port.RightMissing does: `patch nodes/status`,
    `list jobs.batch`. Empty for a right that Slackwater does not use."""
    verb, _, resource = right.partition(" ")
    if verb in ("list", "watch") and resource in _READS:
        return _READS[resource]
    if resource in _WRITES:
        return _WRITES[resource]
    if resource.endswith(".slackwater.io"):
        return "changes of these documents are not followed: the last ones hold"
    if resource.endswith(".slackwater.io/status"):
        return "the status of these documents is not written; they hold all the same"
    if resource in (f"{plural}.{_ADMISSION}" for plural in _POLICIES):
        if verb in ("list", "watch"):
            return "changes that others make to the policy of profiles are not seen"
        return "the policy of profiles stays as it is"
    if resource == f"mutatingwebhookconfigurations.{_ADMISSION}":
        return "the webhook of profiles stays configured as it is"
    if resource == "secrets":
        return "the certificate of the webhook is not renewed"
    return ""


def effects_without(rights: Sequence[str]) -> Sequence[str]:
    """Each effect once, with the rights that it lacks: `evictions wait until their deadline (create pods/eviction)`."""
    by_effect: dict[str, list[str]] = {}
    for right in rights:
        by_effect.setdefault(effect_without(right), []).append(right)
    return [f"{effect or 'not used'} ({', '.join(lacking)})" for effect, lacking in by_effect.items()]


def parts_of(path: str) -> tuple[str, str, Sequence[str]]:
    """API group and namespace that the path of a request names (empty: none), and the rest of it: resource, name,
    subresource, as far as it has them."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1] if len(parts) > 1 else "", parts[3:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        return group, rest[1], rest[2:]
    return group, "", rest


def access_review(verb: str, path: str) -> Mapping[str, Any]:
    """A SelfSubjectAccessReview of a verb on what the path of a request names."""
    group, namespace, rest = parts_of(path)
    named = dict(zip(("resource", "name", "subresource"), rest, strict=False))
    attributes = {"verb": verb, "group": group, "namespace": namespace, **named}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
