"""The MutatingAdmissionPolicy of all profiles: mutation.py in CEL, so that the API server needs no webhook.

One policy with a mutation per profile, because the API server applies the mutations of a policy in their order and
policies in any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from slackwater.model.tiers import Tier
from slackwater.profiles.mutation import (
    AMOUNTS,
    CONTAINERS,
    CRITICAL_CLASS,
    HUGE_PAGES,
    MOST_ANNOTATIONS,
    MOST_CORES,
    MOST_WHOLE,
    OWN_DOMAIN,
    STATIC_ANNOTATIONS,
    SYSTEM_CRITICAL,
    SYSTEM_NAMESPACES,
    resource_name,
    room_of,
    sources,
)
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
NAMES_AT_ONCE: Final = 1400
"""Namespaces in one expression, which has at most 100,000 characters: a name has up to 63."""
MOST_EXPRESSION: Final = 100_000
"""Characters of an expression that the API server takes."""
MOST_POLICY: Final = 1_000_000
"""Bytes of all expressions: the API server stores no object of more than 1.5 MB."""
TOO_LONG: Final = (
    "the API server takes no policy of more than {}: shorten selectors and annotations, or let the webhook apply"
    " profiles (SLACKWATER_KUBERNETES_PROFILES)"
)
_SECTIONS: Final = "['requests', 'limits']"
_MILLI: Final = "string((int(quantity({0}).asApproximateFloat() * 1000000000.0 + 0.5) + 999999) / 1000000)"
_WHOLE: Final = (
    "(quantity({0}).isInteger() ? {0} : [int(quantity({0}).asApproximateFloat())]"
    ".map(f, string(quantity(string(f)).isLessThan(quantity({0})) ? f + 1 : f))[0])"
)
_LENT: Final = f"(move[1] == 'cpu' ? {_MILLI} : {_WHOLE})"
"""slackwater.profiles.mutation._lent of the text that stands for {0}."""


def not_critical() -> list[dict[str, str]]:
    """The match conditions that leave out critical pods (slackwater.profiles.mutation.is_critical)."""
    first, last = map(cel_text, CRITICAL_CLASS)
    name, annotations, owners = "object.spec.priorityClassName", "object.metadata.annotations", "ownerReferences"
    static = " || ".join(f"{cel_text(key)} in {annotations}" for key in STATIC_ANNOTATIONS)
    conditions = {
        "no-critical-class": f"!has({name}) || !({name}.startsWith({first}) && {name}.endsWith({last}))",
        "no-critical-priority": f"!has(object.spec.priority) || object.spec.priority < {SYSTEM_CRITICAL}",
        "no-static-pod": f"!has({annotations}) || !({static})",
        "not-of-a-node": (
            f"!has(object.metadata.{owners}) || !object.metadata.{owners}.exists(owner, owner.kind == 'Node')"
        ),
    }
    return [{"name": name, "expression": expression} for name, expression in conditions.items()]


def excluding(namespaces: Collection[str]) -> dict[str, Any]:
    """A selector of all other namespaces."""
    excluded = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(namespaces)}
    return {"matchExpressions": [excluded]}


def mutation_objects(
    profiles: Iterable[ClusterColocationProfile],
    excluded: Collection[str] = SYSTEM_NAMESPACES,
    limited: Collection[str] = (),
) -> list[dict[str, Any]]:
    """The policy of all profiles and its binding; none without profiles that change something. Pods of the `excluded`
    namespaces stay; `limited` as in slackwater.profiles.mutation."""
    expressions, _ = expressions_of(profiles)
    mutations = [
        {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}} for expression in expressions.values()
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
                "matchConditions": not_critical(),
                "matchConstraints": {"namespaceSelector": excluding(excluded), "resourceRules": [POD_CREATION]},
                "variables": _limited(sorted(limited)),
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


def expressions_of(profiles: Iterable[ClusterColocationProfile]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The CEL of each profile that changes something, by name in their order; and why others are left out, because with
    them the API server would refuse all."""
    expressions, left_out, total = dict[str, str](), dict[str, str](), 0
    for profile in sorted(profiles, key=lambda profile: profile.name):
        expression = mutation_cel(profile)
        size = len(expression.encode())
        if len(expression) > MOST_EXPRESSION:
            left_out[profile.name] = TOO_LONG.format(f"{MOST_EXPRESSION:,} characters, and its has {len(expression):,}")
        elif total + size > MOST_POLICY:
            left_out[profile.name] = TOO_LONG.format(f"{MOST_POLICY:,} bytes of all profiles")
        elif expression:
            expressions[profile.name] = expression
            total += size
    return expressions, left_out


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
        *(["!variables.limited"] if spec.limited_namespaces == "skip" else []),
    ]
    return f"{' && '.join(f'({condition})' for condition in conditions)} ? ({patches}) : []"


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
    if annotations := [*_metadata("annotations", spec.annotation_keys_mapping, spec.annotations)]:
        yield f"({_have_room(spec)} ? ({' + '.join(annotations)}) : [])"
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
        rewritten = _resources(spec.rewritten_tier, spec.resource_domain)
        yield f"(variables.limited ? [] : {rewritten})" if spec.limited_namespaces == "keep-resources" else rewritten


def _limited(namespaces: Sequence[str]) -> list[dict[str, str]]:
    """The variable `limited`, and those that it consists of: an expression has a longest length."""
    if len(namespaces) <= NAMES_AT_ONCE:
        return [{"name": "limited", "expression": f"request.namespace in {_texts(namespaces)}"}]
    parts = [namespaces[first : first + NAMES_AT_ONCE] for first in range(0, len(namespaces), NAMES_AT_ONCE)]
    variables = [
        {"name": f"limited{number}", "expression": f"request.namespace in {_texts(part)}"}
        for number, part in enumerate(parts)
    ]
    any_of = " || ".join(f"variables.{variable['name']}" for variable in variables)
    return [*variables, {"name": "limited", "expression": any_of}]


def _texts(values: Collection[str]) -> str:
    """A list of strings in CEL; of a type also where it is empty."""
    return f"[{', '.join(map(cel_text, values))}]" if values else "['']"


def _metadata(field: str, mapping: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Patches of labels or annotations. A mapping reads the pod as it came, and what is set goes before it."""
    now = f"object.metadata.{field}"
    if values or mapping:
        yield f"(has({now}) ? [] : [{_add(cel_text(f'/metadata/{field}'), 'dyn({})')}])"
    for old, new in mapping.items():
        yield f"(has({now}) && {cel_text(old)} in {now} ? [{_add(_key(field, new), f'{now}[{cel_text(old)}]')}] : [])"
    if values:
        yield f"[{', '.join(_add(_key(field, key), cel_text(value)) for key, value in values.items())}]"


def _have_room(spec: ClusterColocationProfileSpec) -> str:
    """slackwater.profiles.mutation._have_room in CEL."""
    factor, added = room_of(spec)
    present = "object.metadata.annotations"
    size = f"(has({present}) ? {present}.map(k, size(bytes(k)) + size(bytes({present}[k]))).sum() : 0)"
    return f"{size} * {factor} + {added} <= {MOST_ANNOTATIONS}"


def _key(field: str, key: str) -> str:
    escaped = key.replace("~", "~0").replace("/", "~1")
    return cel_text(f"/metadata/{field}/{escaped}")


def _add(path: str, value: str) -> str:
    return f"JSONPatch{{op: 'add', path: {path}, value: {value}}}"


def _resources(tier: Tier, domain: str) -> str:
    """Patches of the resources of every container. `[x].map(name, ...)[0]` is how CEL binds a name.

    names   the tier's resource and what becomes it
    move    a tier's resource and the only one of `names` that the container has: it becomes the tier's
    values  what the container has of it, its request before its limit
    """
    names = [[resource_name(tier, amount, domain), *sources(tier, amount, domain)] for amount in AMOUNTS]
    base = "'/spec/' + c + '/' + string(i) + '/resources/'"
    huge = f"{_SECTIONS}.exists(s, s in r && r[s].exists(n, n.startsWith('{HUGE_PAGES}')))"
    present = f"names.filter(n, {_SECTIONS}.exists(s, s in r && n in r[s]))"
    only = f"[{present}].filter(p, size(p) == 1 && p[0] != names[0])"
    moves = f"{names}.map(names, {only}.map(p, [names[0], p[0]])).flatten()"
    values = f"{_SECTIONS}.filter(s, s in r && move[1] in r[s]).map(s, string(r[s][move[1]]))"
    most = f"quantity(move[1] == 'cpu' ? '{MOST_CORES}' : '{MOST_WHOLE}')"
    lent = f"values.all(v, !quantity(v).isGreaterThan({most}))"
    if domain == OWN_DOMAIN:
        lent += (
            " && quantity(values[0]).isGreaterThan(quantity('0'))"
            " && values.all(v, quantity(v).compareTo(quantity(values[0])) == 0)"
        )

    def to(section: str, value: str) -> str:
        return "[" + _add(f"{base} + '{section}/' + jsonpatch.escapeKey(move[0])", value) + "]"

    limit = to("limits", _LENT.format("values[size(values) - 1]"))
    is_limited = "'limits' in r && move[1] in r['limits']"
    sets = f"{to('requests', _LENT.format('values[0]'))} + " + (
        limit if domain == OWN_DOMAIN else f"({is_limited} ? {limit} : [])"
    )
    removes = (
        f"{_SECTIONS}.filter(s, s in r && move[1] in r[s])"
        f".map(s, JSONPatch{{op: 'remove', path: {base} + s + '/' + jsonpatch.escapeKey(move[1])}})"
    )
    empty = f"{_SECTIONS}.filter(s, !(s in r)).map(s, {_add(f'{base} + s', 'dyn({})')})"
    patches = f"{moves}.map(move, [{values}].map(values, ({lent}) ? {sets} + {removes} : [])[0]).flatten()"
    container = f"{huge} ? [] : [{patches}].map(p, size(p) == 0 ? [] : {empty} + p)[0]"
    return (
        f"(has(object.spec.resources) ? [] : {list(CONTAINERS)}.filter(c, c in object.spec).map(c,"
        " lists.range(size(object.spec[c])).filter(i, has(object.spec[c][i].resources)).map(i,"
        f" [object.spec[c][i].resources].map(r, {container})[0]).flatten()).flatten())"
    )
