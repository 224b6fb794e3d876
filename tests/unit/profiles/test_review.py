"""Admission reviews: the patch is the difference that profiles make, and every answer lets the pod pass."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput
from slackwater.profiles.mutation import SYSTEM_NAMESPACES, mutate_all
from slackwater.profiles.profile import ClusterColocationProfile
from slackwater.profiles.review import answer, difference, patch_of, read_request

BATCH = ClusterColocationProfile.parse(
    {
        "metadata": {"name": "batch"},
        "spec": {"selector": {"matchLabels": {"app": "spark"}}, "tier": "batch", "annotations": {"a/b": "d"}},
    }
)
POD: Mapping[str, Any] = {
    "metadata": {"generateName": "p-", "labels": {"app": "spark"}},
    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]},
}


def request(**changes: Any) -> dict[str, Any]:
    given = {"uid": "u", "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "CREATE"}
    return {**given, "namespace": "jobs", "object": POD, **changes}


def patched(document: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902, of add, replace and remove."""
    document = copy.deepcopy(document)
    for operation in patch:
        path = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        if not path:
            document = operation["value"]
            continue
        parent = document
        for part in path[:-1]:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        last: Any = int(path[-1]) if isinstance(parent, list) else path[-1]
        if operation["op"] == "remove":
            del parent[last]
        else:
            assert operation["op"] == "add" or isinstance(parent, list) or last in parent
            parent[last] = operation["value"]
    return document


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a/b", "~1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "a/b", "~", ""]), inner),
    max_leaves=12,
)


@settings(max_examples=50)
@given(JSON, JSON)
def test_the_patch_makes_one_document_of_another(before: Any, after: Any) -> None:
    patch = list(difference(before, after))
    assert patched(before, patch) == after
    assert list(difference(after, copy.deepcopy(after))) == []


def test_a_created_pod_becomes_what_the_preview_shows() -> None:
    patch = patch_of(request(), [BATCH], {})
    assert patched(POD, patch) == mutate_all(POD, [BATCH], "jobs", {})
    review = answer("u", patch)
    assert review["response"]["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(review["response"]["patch"])) == patch


@pytest.mark.parametrize(
    "other",
    [
        {"operation": "UPDATE"},
        {"resource": {"resource": "deployments"}},
        {"resource": None},
        {"subResource": "eviction"},
        *({"namespace": name} for name in SYSTEM_NAMESPACES),
        {"object": {**POD, "metadata": {"labels": {"app": "web"}}}},
    ],
)
def test_what_no_profile_selects_gets_no_patch(other: dict[str, Any]) -> None:
    assert patch_of(request(**other), [BATCH], {}) == []
    assert answer("u", [])["response"] == {"uid": "u", "allowed": True}


@pytest.mark.parametrize("body", [None, [], {}, {"kind": "AdmissionReview"}, "text", 3])
def test_a_body_that_is_no_review_is_refused(body: object) -> None:
    with pytest.raises(InvalidInput):
        read_request(body)
    for request in (body, {"uid": body if body != "text" else ""}):
        with pytest.raises(InvalidInput):
            read_request({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


@settings(max_examples=50)
@given(st.sampled_from(["metadata", "spec"]), JSON)
def test_a_pod_that_cannot_be_read_is_refused_and_nothing_else_is_raised(field: str, value: Any) -> None:
    with suppress(InvalidInput):
        patch_of(request(object={**POD, field: value}), [BATCH], {})


@pytest.mark.parametrize("name", ["uid", "namespace"])
def test_what_an_answer_and_a_log_line_repeat_is_short(name: str) -> None:
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request(**{name: "x" * 10**6})}
    with pytest.raises(InvalidInput, match=f"request.{name} is longer than 512") as refused:
        read_request(review)
    assert len(refused.value.message) < 100
