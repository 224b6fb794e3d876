"""The MutatingAdmissionPolicy of all profiles: mutation.py in CEL, so that the API server needs no webhook.

One policy with a mutation per profile, because the API server applies the mutations of a policy in their order and
policies in any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from slackwater.model.tiers import Tier
from slackwater.profiles.mutation import AMOUNTS, CONTAINERS, OWN_DOMAIN, SYSTEM_NAMESPACES, resource_name, sources
from slackwater.profiles.profile import ClusterColocationProfile, ClusterColocationProfileSpec
from slackwater.profiles.share import drawn_cel
from slackwater.resources.crd.structural import cel_text
from slackwater.resources.selectors import LabelSelector

API: Final = "admissionregistration.k8s.io/v1"
NAME: Final = "profiles.slackwater.io"
LABELS: Final = {"app.kubernetes.io/name": "slackwater", "app.kubernetes.io/part-of": "slackwater"}
POD_CREATION: Final[Mapping[str, Any]] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE"],
    "resources": ["pods"],
}


def excluding(namespaces: Collection[str]) -> dict[str, Any]:
    """A selector of all other namespaces."""
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [excluded]}


def mutation_objects(
    profiles: Iterable[ClusterColocationProfile], excluded: Collection[str] = SYSTEM_NAMESPACES
) -> list[dict[str, Any]]:
    """The policy of all profiles and its binding; none without profiles that change something. Pods of the `excluded`
    namespaces stay."""
    mutations = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
        for profile in sorted(profiles, key=lambda profile: profile.name)
        if (expression := mutation_cel(profile))
    ]
    if not mutations:
        return []
    return [
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": NAME, "labels": LABELS},
            "spec": {
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "Never",
                "matchConstraints": {"namespaceSelector": excluding(excluded), "resourceRules": [POD_CREATION]},
                "mutations": mutations,
            },
        },
        {
            "apiVersion": API,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": NAME, "labels": LABELS},
            "spec": {"policyName": NAME},
        },
    ]


def mutation_cel(profile: ClusterColocationProfile) -> str:
    """CEL for the patches of a created pod, none if the profile does not select it; empty if it changes nothing."""
    spec = profile.spec
    patches = " + ".join(_patches(spec))
    if not patches:
        return ""
    conditions = [
        *_selector(spec.selector, "object.metadata.labels", "has(object.metadata.labels)"),
        *_selector(spec.namespace_selector, "namespaceObject.metadata.labels", "has(namespaceObject.metadata.labels)"),
        drawn_cel(spec.probability),
    ]
    return f"{' && '.join(f'({one})' for one in conditions)} ? ({patches}) : []"


def _selector(selector: LabelSelector | None, labels: str, has: str) -> Iterator[str]:
    if selector is None:
        return
    for key, value in selector.match_labels.items():
        yield f"{has} && {cel_text(key)} in {labels} && {labels}[{cel_text(key)}] == {cel_text(value)}"
    for expression in selector.match_expressions:
        present = f"{has} && {cel_text(expression.key)} in {labels}"
        is_in = f"{present} && {labels}[{cel_text(expression.key)}] in [{', '.join(map(cel_text, expression.values))}]"
        match expression.operator:
            case "In":
                yield is_in
            case "NotIn":
                yield f"!({is_in})"
            case "Exists":
                yield present
            case "DoesNotExist":
                yield f"!({present})"


def _patches(spec: ClusterColocationProfileSpec) -> Iterator[str]:
    """CEL lists of patches, in their order."""
    yield from _metadata("labels", spec.label_keys_mapping, spec.all_labels)
    yield from _metadata("annotations", spec.annotation_keys_mapping, spec.annotations)
    fields: dict[str, str] = {}
    if spec.scheduler_name is not None:
        fields["schedulerName"] = cel_text(spec.scheduler_name)
    if spec.priority_class is not None:
        fields |= {
            "priorityClassName": cel_text(spec.priority_class.name),
            "priority": str(spec.priority_class.value),
            "preemptionPolicy": cel_text(spec.priority_class.preemption_policy),
        }
    if fields:
        yield f"[{', '.join(_add(cel_text(f'/spec/{name}'), value) for name, value in fields.items())}]"
    if spec.rewritten_tier is not None:
        yield _resources(spec.rewritten_tier, spec.resource_domain)


def _metadata(field: str, mapping: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Patches of labels or annotations. A mapping reads the pod as it came, and what is set goes before it."""
    now = f"object.metadata.{field}"
    if values or mapping:
        yield f"(has({now}) ? [] : [{_add(cel_text(f'/metadata/{field}'), 'dyn({})')}])"
    for old, new in mapping.items():
        yield f"(has({now}) && {cel_text(old)} in {now} ? [{_add(_key(field, new), f'{now}[{cel_text(old)}]')}] : [])"
    if values:
        yield f"[{', '.join(_add(_key(field, key), cel_text(value)) for key, value in values.items())}]"


def _key(field: str, key: str) -> str:
    escaped = key.replace("~", "~0").replace("/", "~1")
    return cel_text(f"/metadata/{field}/{escaped}")


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _resources(tier: Tier, domain: str) -> str:
    """Patches of the resources of every container. `[x].map(name, ...)[0]` is how CEL binds a name.

    names    the tier's resource and what becomes it
    amounts  values of the first source in requests and in limits: each a list of one, or empty
    """
    names = [[resource_name(tier, amount, domain), *sources(tier, amount, domain)] for amount in AMOUNTS]
    known = [name for listed in names for name in listed[1:]]
    milli = "string((int(quantity(string(r[s][n])).asApproximateFloat() * 1000000000.0 + 0.5) + 999999) / 1000000)"
    base = "'/spec/' + c + '/' + string(i) + '/resources/'"
    values = (
        "[['requests', 'limits'].map(s, names.filter(n, n != names[0] && s in r && n in r[s])"
        f".map(n, n == 'cpu' ? {milli} : string(r[s][n])))]"
    )
    request, limit = "(amounts[0] + amounts[1])[0]", "amounts[1][0]"

    def to(section: str, value: str) -> str:
        return "[" + _add(f"{base} + '{section}/' + jsonpatch.escapeKey(names[0])", value) + "]"

    sets = f"{to('requests', request)} + " + (
        to("limits", request) if domain == OWN_DOMAIN else f"(size(amounts[1]) == 0 ? [] : {to('limits', limit)})"
    )
    empty = f"['requests', 'limits'].filter(s, !(s in r)).map(s, {_add(f'{base} + s', 'dyn({})')})"
    amounts = (
        f"{names}.map(names, {values}.map(amounts, size(amounts[0] + amounts[1]) == 0 ? [] : {sets})[0]).flatten()"
    )
    removed = f"JSONPatch{{op: 'remove', path: {base} + s + '/' + jsonpatch.escapeKey(n)}}"
    removes = (
        f"['requests', 'limits'].filter(s, s in r).map(s, {known}.filter(n, n in r[s]).map(n, {removed})).flatten()"
    )
    return (
        f"(has(object.spec.resources) ? [] : {list(CONTAINERS)}.filter(c, c in object.spec).map(c,"
        " lists.range(size(object.spec[c])).filter(i, has(object.spec[c][i].resources)).map(i,"
        f" [object.spec[c][i].resources].map(r, ['requests', 'limits'].exists(s, s in r"
        f" && {known}.exists(n, n in r[s])) ? {empty} + {amounts} + {removes} : [])[0]).flatten()).flatten())"
    )
