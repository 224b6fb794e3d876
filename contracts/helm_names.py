"""Names of the release in objects of the manifests: namespaces, names, selectors, addresses.

A manifest says `ingestion`; the chart says `<release>-ingestion`, and selects pods of its release only.
"""

from __future__ import annotations

from typing import Any

from contracts.helm_templates import TemplateText

NAMESPACE, AGENTS = "slackwater", "slackwater-node"
NATS_URL = "tls://nats.slackwater.svc:4222"
CLUSTER_KINDS = frozenset(
    {"CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "Namespace"}
)
"""Kinds of which a cluster has one object, whatever the release is called."""
_REFERENCES = frozenset({"serviceAccountName", "serviceName", "claimName"})
_NAMED = frozenset({"roleRef", "subjects"})
_NAME = "app.kubernetes.io/name"
Tree = dict[str, Any]


def named(name: str, text: TemplateText) -> str:
    """An expression: the name of an object of the release."""
    return text.scalar(f'include "slackwater.named" (list $ "{name}")')


def renamed(one: Tree, text: TemplateText) -> Tree:
    """A copy of an object with the names of the release."""
    tree = _copy(one, text)
    if one["kind"] not in CLUSTER_KINDS:
        tree["metadata"]["name"] = named(one["metadata"]["name"], text)
    return tree


def _copy(tree: Any, text: TemplateText, key: str = "") -> Any:
    if isinstance(tree, dict):
        copied = {name: _value(name, value, text, key) for name, value in tree.items()}
        return _selecting(copied, tree, text, key)
    if isinstance(tree, list):
        return [_copy(item, text, key) for item in tree]
    return text.scalar('include "slackwater.natsUrl" $ | quote') if tree == NATS_URL else tree


def _value(name: str, value: Any, text: TemplateText, parent: str) -> Any:
    if name in ("namespace", "kubernetes.io/metadata.name") and value in (NAMESPACE, AGENTS):
        release = "$.Release.Namespace" if value == NAMESPACE else 'include "slackwater.agentsNamespace" $'
        return text.scalar(release)
    if name in _REFERENCES or (name == "name" and parent in _NAMED):
        return named(value, text)
    if name == "resourceNames":
        return [named(item, text) if "." not in item else item for item in value]
    return _copy(value, text, name)


def _selecting(copied: Tree, tree: Tree, text: TemplateText, key: str) -> Tree:
    """Selectors of pods also select the instance; the one of all pods those of the release."""
    line = dict([text.key('{{- include "slackwater.instance" $ | nindent {n} }}')])
    if key in ("matchLabels", "selector") and _NAME in tree:
        return {**copied, **line}
    if key == "podSelector" and not tree:
        return dict([text.key('{{- include "slackwater.everyPod" $ | nindent {n} }}')])
    if key == "podSelector" and "matchExpressions" in tree:
        return {**copied, **dict([text.key('{{- include "slackwater.instanceSelector" $ | nindent {n} }}')])}
    return copied
