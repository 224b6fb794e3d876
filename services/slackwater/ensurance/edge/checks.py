"""What readiness says of ensurance's state and policies."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.ensurance.usecases.documents_in_force import DocumentsInForce
from slackwater.ensurance.usecases.node_cache import GuardedNodeCache
from slackwater.runtime.resource_news import unusable_text
from slackwater.runtime.service import Check
from slackwater.waterline.rulebook import rules_without_effect


def state_checks(cache: GuardedNodeCache, documents: DocumentsInForce) -> Sequence[Check]:
    """How many nodes are known, and which documents and rules have no effect."""
    known = f"{len(cache.nodes())} nodes" if cache.ready else "not read yet"
    unusable = f"{len(documents.problems)} unusable{unusable_text(documents.problems)}"
    return [
        Check("ensurance-state", cache.ready, known),
        Check("ensurance-policies", True, f"{unusable}{_idle_rules(cache)}"),
    ]


def _idle_rules(cache: GuardedNodeCache) -> str:
    """Rules that can act on no pod, for health. Begins with a semicolon; empty if every rule can act."""
    reasons = rules_without_effect(cache.rules.policies, cache.metrics) if cache.ready else {}
    return "".join(f"; rule {key} acts on no pod: {why}" for key, why in sorted(reasons.items()))
