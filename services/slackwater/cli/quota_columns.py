"""ElasticQuotas and QuotaProfiles as `get` prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slackwater.cli.output import UNKNOWN, Item


def minimum(quota: Item) -> str:
    """The min as written."""
    return _amounts(quota["spec"].get("min") or {})


def maximum(quota: Item) -> str:
    """The max as written."""
    return _amounts(quota["spec"].get("max") or {})


def pool(profile: Item) -> str:
    """The pool whose nodes the tree shares."""
    return str(profile["spec"].get("nodePool") or profile["metadata"]["name"])


def tree(profile: Item) -> str:
    """The tree that quotas name."""
    return str(profile["spec"].get("tree") or profile["metadata"]["name"])


def _amounts(amounts: Mapping[str, Any]) -> str:
    return ",".join(f"{resource}={amount}" for resource, amount in amounts.items()) or UNKNOWN
