"""Answers admission reviews of pods with the patch that profiles make of them. policy.py is the same in CEL."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from slackwater.model.bounds import MOST_NAME
from slackwater.model.errors import InvalidInput
from slackwater.profiles.mutation import SYSTEM_NAMESPACES, mutate_all
from slackwater.profiles.profile import ClusterColocationProfile

API: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"


def read_request(body: object) -> Mapping[str, Any]:
    """The request of an AdmissionReview v1. Raises InvalidInput for what is none."""
    review = body if isinstance(body, Mapping) else {}
    request = review.get("request")
    if review.get("apiVersion") != API or review.get("kind") != KIND or not isinstance(request, Mapping):
        raise InvalidInput(f"not an {KIND} of {API}", field="request")
    if not isinstance(request.get("uid"), str) or not request["uid"]:
        raise InvalidInput("request.uid is missing", field="request.uid")
    for name in ("uid", "namespace"):  # they stand in the answer, and in the log
        if len(str(request.get(name) or "")) > MOST_NAME:
            raise InvalidInput(f"request.{name} is longer than {MOST_NAME} characters", field=f"request.{name}")
    return request


def patch_of(
    request: Mapping[str, Any],
    profiles: Iterable[ClusterColocationProfile],
    namespace_labels: Mapping[str, str],
    excluded: Collection[str] = SYSTEM_NAMESPACES,
    limited: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The JSON patch of a created pod; empty for everything else. Raises InvalidInput for a pod that cannot be read."""
    resource = request.get("resource")
    kind = resource.get("resource") if isinstance(resource, Mapping) else None
    if (kind, request.get("operation"), request.get("subResource") or "") != ("pods", "CREATE", ""):
        return []
    pod, namespace = request.get("object"), request.get("namespace")
    if not isinstance(pod, Mapping) or not isinstance(namespace, str):
        raise InvalidInput("request.object is no pod", field="request.object")
    try:
        changed = mutate_all(pod, profiles, namespace, namespace_labels, excluded, limited)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidInput(f"request.object cannot be read: {error}", field="request.object") from error
    return list(difference(pod, changed))


def answer(uid: str, patch: Sequence[Mapping[str, Any]], warning: str = "") -> dict[str, Any]:
    """The AdmissionReview that lets a pod pass with a patch. `warning` is shown to its creator."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    if warning:
        response["warnings"] = [warning]
    return {"apiVersion": API, "kind": KIND, "response": response}


def difference(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """The JSON patch (RFC 6902) from one document to another."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, value in after.items():
            inner = f"{path}/{_escaped(key)}"
            if key in before:
                yield from difference(before[key], value, inner)
            else:
                yield {"op": "add", "path": inner, "value": value}
        for key in before:
            if key not in after:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from difference(one, other, f"{path}/{place}")
    elif before != after:
        yield {"op": "replace", "path": path, "value": after}


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
