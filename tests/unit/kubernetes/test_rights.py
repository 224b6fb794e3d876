"""The rights in the manifests are those of the calls that the service makes, kind by kind."""

from __future__ import annotations

from tests.kubernetes.drivers import granted, rules

from slackwater.apiserver.records import KINDS
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS, POLICY_KINDS


def test_the_rights_are_exactly_those_that_are_used() -> None:
    """tests/kubernetes shows on an API server that each one is needed, and that these suffice."""
    documents = [watched for _, watched in DOCUMENT_KINDS.values()]
    used = [
        (kind.group, kind.plural, verb) for kind in (*KINDS, *documents, *POLICY_KINDS) for verb in ("list", "watch")
    ]
    used += [("", "nodes/status", "patch"), ("", "nodes", "patch"), ("", "pods/eviction", "create")]
    used += [(kind.group, f"{kind.plural}/status", "patch") for kind in documents]
    used += [(kind.group, kind.plural, verb) for kind in POLICY_KINDS for verb in ("create", "patch", "delete")]
    assert sorted(granted(rules())) == sorted(used)
