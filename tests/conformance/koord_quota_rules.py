"""Areas of koord_quota_sched.json about what the peer's webhook makes of quotas and refuses, one object or in a row.

A peer's quota becomes a document as `slackwater import` makes one of it, so that defaults are the product's. Its rules
are then those of a change; the state of a sequence follows the peer, so that each step is compared by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from koord_quota import quota_of_case
from verdicts import Adaptor, Case, Verdict, compare, differ, not_covered, wanted

from slackwater.fairshare.claim_intake import refusal_of
from slackwater.fairshare.claims import QuotaClaim
from slackwater.fairshare.documents import ElasticQuota, quota_of
from slackwater.fairshare.reconciliation import RunningWorkload, reconcile
from slackwater.fairshare.tree import Amounts, Quota, is_cpu
from slackwater.fairshare.tree_layout import layouts
from slackwater.fairshare.validation import QuotaRule, deletion_refusals, refusals
from slackwater.koordinator.conversion_report import ConvertedDocument
from slackwater.koordinator.quota_objects import BUILT_IN, PREFIX, SYSTEM, quotas
from slackwater.koordinator.source_objects import source_objects
from slackwater.model.errors import InvalidInput
from slackwater.model.tiers import Tier

_OWN_NAMES: Final = {**BUILT_IN, SYSTEM: "system"}
_FORCED: Final = frozenset({"force", "force_update", "allow_force_update", "allow_force"})
_LABELS: Final = (("parent", "parent"), ("is_parent", "is-parent"), ("tree_id", "tree-id"))
_RULES: Final[Mapping[str, QuotaRule]] = {
    "tree id": QuotaRule.TREE,
    "isParent is forbidden": QuotaRule.IS_PARENT,
    "invalid quota": QuotaRule.NAME,
    "can not delete quotaGroup": QuotaRule.NAME,
    "child quotas": QuotaRule.IN_USE,
    "child pods": QuotaRule.IN_USE,
    "MinQuota": QuotaRule.MIN_SUM,
    "IsParent is false": QuotaRule.PARENT,
    "parentName": QuotaRule.PARENT,
}
"""What the peer says, and the rule of ours that has to be among those broken. Other texts: any."""


def _text(resource: str, amount: int) -> str:
    return f"{amount}m" if is_cpu(resource) else str(amount)


def _texts(amounts: Amounts) -> dict[str, str]:
    return {resource: _text(resource, amount) for resource, amount in amounts.items()}


def _object(given: Mapping[str, Any]) -> dict[str, Any]:
    """A quota of the cases as the object that the peer's API takes."""
    labels = {f"{PREFIX}{label}": _label(given[name]) for name, label in _LABELS if given.get(name)}
    if given.get("lend") is False:
        labels[f"{PREFIX}allow-lent-resource"] = "false"
    weight = given.get("weight")
    annotations = {} if weight is None else {f"{PREFIX}shared-weight": json.dumps(_texts(weight))}
    spec = {name: _texts(given.get(name) or {}) for name in ("min", "max")}
    metadata = {"name": given["name"], "labels": labels, "annotations": annotations}
    return {"kind": "ElasticQuota", "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "metadata": metadata, "spec": spec}


def _label(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()


def _imported(given: Mapping[str, Any], around: Mapping[str, Mapping[str, Any]]) -> Quota:
    """Returns the quota that the document of an object comes to, imported with those above it. Raises InvalidInput."""
    above, path = given, {given["name"]: given}
    while (above := around.get(above.get("parent") or "", {})) and above["name"] not in path:
        path[above["name"]] = above
    objects = list(source_objects(_object(each) for each in path.values()))
    made = [one for one in quotas(objects, ()) if isinstance(one, ConvertedDocument) and one.name == given["name"]]
    if not made:
        raise InvalidInput(f"no document is made of {given['name']}")
    return quota_of(ElasticQuota.parse({"metadata": {"name": made[0].name}, "spec": made[0].spec})).quota


def defaults(case: Case) -> Verdict:
    """The peer writes the weight into the object, where 0 in all again means max: compared is what both come to."""
    around: dict[str, Mapping[str, Any]] = {}
    for one, want in zip(case["given"]["quotas_in_order"], wanted(case)["results"], strict=True):
        quota = _imported(one, around)
        got = {"parent": quota.parent, "weight": dict(quota.shared_weight), "tree_id": quota.tree}
        stored = Quota(quota.name, maximum=one["max"], weight=want["weight"])
        parent = _OWN_NAMES.get(want["parent"], want["parent"])
        told = {"parent": parent, "weight": dict(stored.shared_weight), "tree_id": want["tree_id"]}
        if (verdict := compare(got, told)).word != "pass":
            return verdict
        around[one["name"]] = one
    return Verdict("pass")


def validate_alone(case: Case) -> Verdict:
    """`weight_raw` is the text of an annotation: the document has a field instead, which the model checks."""
    given, want = case["given"]["quota"], wanted(case)["allow"]
    if "annotation" in given:
        return not_covered("JSON in annotations of a quota: here it has typed fields")
    allowed = not refusals({}, quota_of_case(given), {})
    if "weight_raw" in given:
        allowed = allowed and _is_readable(given)
    if allowed and not want and given.get("max_strict_check"):
        return differ("quota-max-below-used")
    return compare(allowed, want)


def _is_readable(given: Mapping[str, Any]) -> bool:
    try:
        weight = json.loads(given["weight_raw"])
    except ValueError:
        weight = given["weight_raw"]
    spec = {"max": _texts(given.get("max") or {}), "sharedWeight": weight}
    try:
        ElasticQuota.parse({"metadata": {"name": given["name"]}, "spec": spec})
    except InvalidInput:
        return False
    return True


@dataclass
class _Webhook:
    """What the peer has admitted so far."""

    given: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    pods: dict[tuple[str, str], str] = field(default_factory=dict)
    """The quota by label of each pod; empty: by namespace."""
    gates: set[str] = field(default_factory=set)

    @property
    def claims(self) -> dict[str, int]:
        """By quota: a claim names its quota, namespaces have none."""
        labels = [label for label in self.pods.values() if label]
        return {label: labels.count(label) for label in labels}

    def made(self, step: Mapping[str, Any]) -> Quota:
        """Returns what the quota of a step comes to. Raises InvalidInput."""
        given = step["quota"]
        if given["name"] in _OWN_NAMES:
            return quota_of_case({**given, "name": _OWN_NAMES[given["name"]]})
        return quota_of_case(given) if step.get("defaulting") is False else _imported(given, self.given)

    def keep(self, given: Mapping[str, Any], quota: Quota) -> None:
        """The peer has admitted it."""
        self.given[given["name"]], self.quotas[given["name"]] = given, quota


def _is_bound_by_namespace(hook: _Webhook, given: Mapping[str, Any]) -> bool:
    spaces = {given["name"], *(given.get("namespaces") or ()), *(hook.given[given["name"]].get("namespaces") or ())}
    return any(not label and space in spaces for (space, _), label in hook.pods.items())


def sequence(case: Case) -> Verdict:
    """Steps that differ name their rows; all others have to agree."""
    hook, rows = _Webhook(), dict[str, None]()
    for number, step in enumerate(case["steps"]):
        for verdict in _step(hook, step):
            if verdict.word == "not covered":
                return verdict
            if verdict.word == "FAIL":
                return Verdict("FAIL", f"step {number}: {verdict.why}")
            rows |= dict.fromkeys(verdict.anchors)
    return differ(*rows) if rows else Verdict("pass")


def _step(hook: _Webhook, step: Mapping[str, Any]) -> Iterator[Verdict]:
    operation = str(step.get("op", ""))
    if operation in _STEPS:
        yield _STEPS[operation](hook, step)
    elif operation not in ("", "expect_bindings"):
        yield not_covered(f"steps of the kind {operation}")
    if step.get("expect_bindings") or operation == "expect_bindings":
        yield differ("quota-by-claim")


def _put(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    given, want = step["quota"], step["expect"]
    if given is None:
        return compare(_is_document(given), want["allow"])
    try:
        quota = hook.made(step)
    except InvalidInput:
        return compare(False, want["allow"])
    broken = {refusal.rule for refusal in refusals(hook.quotas, quota, hook.claims)}
    verdict = _accepted(hook, given, broken) if want["allow"] else _refused(hook, step, broken)
    if want["allow"]:
        hook.keep(given, quota)
    return verdict


def _accepted(hook: _Webhook, given: Mapping[str, Any], broken: set[QuotaRule]) -> Verdict:
    known = hook.given.get(given["name"])
    is_unchecked = bool(_FORCED & given.keys()) or (known is not None and _is_same(given, known))
    if broken and is_unchecked:
        return differ("quota-checks-every-change")
    if broken and QuotaRule.CYCLE in broken:
        return differ("quota-no-cycles")
    return compare(sorted(broken), [])


def _refused(hook: _Webhook, step: Mapping[str, Any], broken: set[QuotaRule]) -> Verdict:
    given, error = step["quota"], step["expect"].get("error") or ""
    rule, known = _rule_of(error), given["name"] in hook.given
    if (rule in broken) if rule else broken:
        return Verdict("pass")
    if not broken and known is (step["op"] == "add"):
        return differ("quota-put-again")
    if broken:
        return differ("quota-refused-in-own-words")
    if "namespace" in error or (rule is QuotaRule.IS_PARENT and known and _is_bound_by_namespace(hook, given)):
        return differ("quota-by-claim")
    if "max keys" in error or "min keys" in error:
        return differ("quota-keys-subset")
    if "guarantee" in error:
        return differ("quota-guarantees-fit")
    if given.get("max_strict_check"):
        return differ("quota-max-below-used")
    return Verdict("FAIL", f"broken {sorted(broken)}, want {error!r}")


def _rule_of(error: str) -> QuotaRule | None:
    return next((rule for text, rule in _RULES.items() if text in error), None)


def _load(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    hook.keep(step["quota"], quota_of_case(step["quota"]))
    return Verdict("pass")


def _is_document(given: Any) -> bool:
    try:
        ElasticQuota.parse(given)
    except InvalidInput:
        return False
    return True


def _is_same(given: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Whether the peer takes the change without a check: it looks at these fields only."""
    fields = ("parent", "is_parent", "tree_id", "namespaces", "min", "max")
    return all(given.get(key) == before.get(key) for key in fields)


def _delete(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    quota, want = step.get("quota") or step.get("name"), step["expect"]
    name = str(quota["name"] if isinstance(quota, Mapping) else quota)
    own = _OWN_NAMES.get(name, name)
    if own == name and name not in hook.given:
        return compare(False, want["allow"])  # 404
    broken = {refusal.rule for refusal in deletion_refusals(hook.quotas, own, hook.claims)}
    if want["allow"]:
        hook.given.pop(name, None)
        hook.quotas.pop(name, None)
    rule = _rule_of(want.get("error") or "")
    return compare(not broken if rule is None else rule not in broken, want["allow"])


def _pod(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    pod = step["pod"]
    place = (pod["namespace"], pod["name"])
    if step["op"] == "pod_create":
        hook.pods[place] = pod.get("quota_label") or ""
    else:
        hook.pods.pop(place, None)
    return Verdict("pass")


def _gate(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    gates = {str(step.get("gate") or step.get("name"))}
    is_on = step.get("enabled", step.get("on", True))
    hook.gates = hook.gates | gates if is_on else hook.gates - gates
    return Verdict("pass")


def _submit(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    """A pod is admitted as its claim is; one without a claim is not refused."""
    label, want = step["pod"].get("quota_label"), step["expect"]
    if not label or label not in hook.quotas:
        return Verdict("pass") if want["allow"] and not label else differ("quota-by-claim")
    layout = layouts(list(hook.quotas.values()))[hook.quotas[label].tree]
    refusal = refusal_of(layout, QuotaClaim("pod", label, Tier.PROD, {}, 0.0), None)
    if refusal is not None and want["allow"] and "SupportParentQuotaSubmitPod" in hook.gates:
        return differ("quota-parents-take-no-claims")
    return compare(refusal is None, want["allow"])


def _relabel(hook: _Webhook, step: Mapping[str, Any]) -> Verdict:
    return not_covered("which labels of a running pod may change: a claim is never changed, and no issue asks for it")


_STEPS: Final[Mapping[str, Callable[[_Webhook, Mapping[str, Any]], Verdict]]] = {
    "add": _put,
    "update": _put,
    "load": _load,
    "delete": _delete,
    "pod_create": _pod,
    "pod_delete": _pod,
    "pod_admit": _submit,
    "pod_update_admit": _relabel,
    "gate": _gate,
}


def charged_quota(case: Case) -> Verdict:
    """Of a pod with a label that is the quota of its claim; of any other what the comparison with claims says of it."""
    given, want = case["given"], wanted(case)["quota"]
    label = given["pod"].get("quota_label") or given["pod"].get("quota")
    if label is None:
        [found] = reconcile((), {"pod": RunningWorkload("pod", {}, 0.0)}, {"pod": 3600.0}, 3600.0)
        return differ("quota-by-claim") if found.quota == "" else compare(found.quota, want)
    there = [Quota(quota["name"]) for quota in given["quotas"]] or [Quota("other")]
    refusal = refusal_of(layouts(there)[""], QuotaClaim("pod", label, Tier.PROD, {}, 0.0), None)
    return compare(label, want) if refusal is None else differ("quota-by-claim")


ADAPTORS: Mapping[str, Adaptor] = {
    "quota.webhook.defaulting": defaults,
    "quota.webhook.self": validate_alone,
    "quota.webhook.sequence": sequence,
    "quota.pod_to_quota": charged_quota,
}
