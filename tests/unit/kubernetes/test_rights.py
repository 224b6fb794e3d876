"""The rights in the manifests are those of the calls that the service makes, kind by kind."""

from __future__ import annotations

from tests.kubernetes.drivers import granted, rules
from tests.kubernetes.manifests import adapter, find

from slackwater.apiserver.objects import SECRETS, WEBHOOKS
from slackwater.apiserver.records import KINDS
from slackwater.kubernetes.settings import KubernetesSettings
from slackwater.kubernetes.usecases.resources_read import DOCUMENT_KINDS, LIMITING_KINDS, POLICY_KINDS
from slackwater.profiles.policy import NAME as POLICY
from slackwater.profiles.webhook import NAME as WEBHOOK
from slackwater.profiles.webhook import SERVICE


def test_the_rights_are_exactly_those_that_are_used() -> None:
    """tests/kubernetes shows on an API server that each one is needed, and that these suffice."""
    documents = [watched for _, watched in DOCUMENT_KINDS.values()]
    used = [
        (kind.group, kind.plural, verb)
        for kind in (*KINDS, *documents, *POLICY_KINDS, *LIMITING_KINDS)
        for verb in ("list", "watch")
    ]
    used += [("", "nodes/status", "patch"), ("", "nodes", "patch"), ("", "pods/eviction", "create")]
    used += [("events.k8s.io", "events", verb) for verb in ("create", "patch")]
    used += [(kind.group, f"{kind.plural}/status", "patch") for kind in documents]
    used += [(kind.group, kind.plural, verb) for kind in POLICY_KINDS for verb in ("create", "patch", "delete")]
    used += [(WEBHOOKS.group, WEBHOOKS.plural, verb) for verb in ("get", "create", "patch", "delete")]
    assert sorted(granted(rules())) == sorted(used)
    assert sorted(granted(rules("Role"))) == [("", SECRETS.plural, verb) for verb in ("get", "patch")]


def test_rights_on_what_applies_profiles_are_for_its_objects_only() -> None:
    named = {
        (resource, name)
        for rule in (*rules(), *rules("Role"))
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
    }
    policies = {(kind.plural, POLICY) for kind in POLICY_KINDS}
    assert named == {(WEBHOOKS.plural, WEBHOOK), (SECRETS.plural, SERVICE)} | policies
    for rule in rules():
        if set(rule["verbs"]) - {"get", "list", "watch"} and rule["apiGroups"] == [WEBHOOKS.group]:
            assert "resourceNames" in rule, "another policy could change every object of the cluster"


def test_the_service_and_the_secret_are_those_that_the_webhook_names() -> None:
    service, secret = (find(adapter(), kind, SERVICE) for kind in ("Service", "Secret"))
    address = KubernetesSettings().address()
    assert {one["metadata"]["namespace"] for one in (service, secret)} == {address.namespace}
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (address.port, KubernetesSettings().webhook_port)
    policy = find(adapter(), "NetworkPolicy", "kubernetes")
    assert any(
        rule["ports"][0]["port"] == port["targetPort"] for rule in policy["spec"]["ingress"] if "from" not in rule
    )


def test_every_service_that_owns_documents_can_be_reached_by_its_name() -> None:
    owners = {kind.service for kind, _ in DOCUMENT_KINDS.values()}
    added = adapter()
    assert {one["metadata"]["name"] for one in added if one["kind"] == "Service"} == {*owners, SERVICE}
    egress = find(added, "NetworkPolicy", "kubernetes-to-documents")
    ingress = find(added, "NetworkPolicy", "documents-from-kubernetes")
    (peer,) = egress["spec"]["egress"][0]["to"]
    assert set(peer["podSelector"]["matchExpressions"][0]["values"]) == owners
    assert set(ingress["spec"]["podSelector"]["matchExpressions"][0]["values"]) == owners
