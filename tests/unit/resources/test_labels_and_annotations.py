"""Labels and annotations of a document are kept as they are given; one without has none of both."""

from __future__ import annotations

import pytest

from slackwater.fairshare.documents import ElasticQuota
from slackwater.model.errors import InvalidInput

META = {
    "name": "team-a",
    "labels": {"app.kubernetes.io/managed-by": "Helm", "empty": ""},
    "annotations": {"argocd.argoproj.io/tracking-id": "slackwater:slackwater.io/ElasticQuota:team-a"},
}


def test_what_tools_set_is_stored_and_answered() -> None:
    quota = ElasticQuota.parse({"kind": "ElasticQuota", "metadata": META, "spec": {"max": {"cpu": 1}}})
    stored = quota.stored()["metadata"]
    assert (stored["labels"], stored["annotations"]) == (META["labels"], META["annotations"])
    assert ElasticQuota.parse_stored(quota.stored()) == quota


def test_a_document_without_them_shows_none() -> None:
    quota = ElasticQuota.parse({"kind": "ElasticQuota", "metadata": {"name": "a"}, "spec": {"max": {"cpu": 1}}})
    assert set(quota.stored()["metadata"]) == {"name", "generation", "changedBy"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": {"a b": "x"}},
        {"labels": {"a": "x y"}},
        {"labels": {"a": 1}},
        {"labels": {f"l{n}": "" for n in range(65)}},
        {"annotations": {"a": "x" * 65_537}},
    ],
)
def test_what_kubernetes_would_refuse_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="metadata"):
        ElasticQuota.parse({"kind": "ElasticQuota", "metadata": {"name": "a", **wrong}, "spec": {}})
