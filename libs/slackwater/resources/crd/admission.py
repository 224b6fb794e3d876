"""ValidatingAdmissionPolicies of kinds: the rules about fields that may have several types."""

from __future__ import annotations

from typing import Any, Final

from slackwater.resources.crd.definition import GROUP, VERSION, document_schema
from slackwater.resources.crd.paths import at_path, shown
from slackwater.resources.crd.structural import AdmissionRule
from slackwater.resources.kind import Kind

API: Final = "admissionregistration.k8s.io/v1"
_LABELS: Final = {"app.kubernetes.io/name": "slackwater", "app.kubernetes.io/part-of": "slackwater"}


def admission_objects(kind: Kind) -> list[dict[str, Any]]:
    """The policy of a kind and its binding; none if the schema of the kind says everything."""
    _, rules = document_schema(kind)
    if not rules:
        return []
    name = f"{kind.plural}.{GROUP}"
    return [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name, "labels": _LABELS},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [GROUP],
                            "apiVersions": [VERSION],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": [kind.plural],
                            "scope": "Cluster",
                        }
                    ]
                },
                "validations": [_validation(rule) for rule in rules],
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name, "labels": _LABELS},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _validation(declared: AdmissionRule) -> dict[str, Any]:
    path, rule = declared.path, declared.rule
    place = shown((*path, rule.field) if rule.field else path)
    expression = at_path(path, rule.expression, "object")
    return {"expression": expression, "message": f"{place}: {rule.message}", "reason": "Invalid"}
