"""What ArbitrationArgs come to."""

from __future__ import annotations

from slackwater.model.errors import InvalidInput
from slackwater.podmigration.arbitration_plugins import FILTER_POINT, SORT_POINT, plugin_names
from slackwater.podmigration.budgets import InvalidAmountError
from slackwater.podmigration.documents import ArbitrationArgsDocument, ArbitrationRules, rules_of
from slackwater.resources.hooks import Hooks, InForce
from slackwater.resources.names import CLUSTER


class ArbitrationArgsHooks(Hooks[ArbitrationArgsDocument, ArbitrationRules]):
    """`default` is in force; others are drafts."""

    def first(self) -> ArbitrationArgsDocument:
        return ArbitrationArgsDocument.parse({"metadata": {"name": CLUSTER, "changedBy": "migration"}, "spec": {}})

    def validate(self, document: ArbitrationArgsDocument) -> None:
        spec = document.spec
        for field, point, names in (
            ("sortFns", SORT_POINT, spec.sort_fns),
            ("groupFilters", FILTER_POINT, spec.group_filters),
        ):
            allowed = plugin_names(point)
            for place, name in enumerate(names):
                if name not in allowed:
                    said = f"spec.{field}.{place}: {name!r} is no plugin; allowed: {', '.join(allowed)}"
                    raise InvalidInput(said, field=f"spec.{field}.{place}")
                if name in names[:place]:
                    raise InvalidInput(f"spec.{field}.{place}: {name!r} is named twice", field=f"spec.{field}.{place}")

    def resolve(self, document: ArbitrationArgsDocument, parent: ArbitrationRules | None) -> ArbitrationRules:
        try:
            return rules_of(document)
        except InvalidAmountError as error:
            raise InvalidInput(f"spec: {error}", field="spec") from None


def rules_in_force(found: InForce[ArbitrationArgsDocument, ArbitrationRules]) -> ArbitrationRules:
    """Returns the rules of the cluster; the built-in ones until its document has been read."""
    return found.values.get(CLUSTER, ArbitrationRules())
