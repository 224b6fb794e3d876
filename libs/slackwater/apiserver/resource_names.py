"""Names of the extended resources that lend capacity: own ones, and the aliases that the field's schedulers know.

CPU in milli-cores and memory in bytes are whole numbers, because extended resources have no fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from slackwater.model.quantities import canonical_bytes, canonical_quantity

OWN_DOMAIN: Final = "slackwater.io"
ALIAS_DOMAIN: Final = "kubernetes.io"
LENT: Final = ("batch-cpu", "batch-memory", "mid-cpu", "mid-memory")
"""Tier and resource, as decision records name them."""
OWN_NAMES: Final = tuple(f"{OWN_DOMAIN}/{subject}" for subject in LENT)
ALIAS_NAMES: Final = tuple(f"{ALIAS_DOMAIN}/{subject}" for subject in LENT)
LENT_NAMES: Final = frozenset({*OWN_NAMES, *ALIAS_NAMES})


def subject_in(name: str) -> str:
    """`batch-cpu` of `slackwater.io/batch-cpu`."""
    return name.partition("/")[2]


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Amounts by resource name, as canonical text."""
    return {
        name: canonical_bytes(amount) if name.endswith("memory") else canonical_quantity(amount)
        for name, amount in amounts.items()
    }
