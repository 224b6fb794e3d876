"""Query parameters that several lists share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from slackwater.console.edge.parameters import ALLOWED
from slackwater.model.errors import InvalidInput
from slackwater.model.nodes import Liveness
from slackwater.model.tiers import QoSClass, Tier

NodeName = Annotated[str, Path(description="The node's name, as `GET /v1/nodes` shows it.", examples=["edge-7"])]
Since = Annotated[str | None, Query(description=f"From this time on: {ALLOWED}.", examples=["15m"])]
Until = Annotated[str | None, Query(description=f"Up to this time (default now): {ALLOWED}.")]
At = Annotated[str | None, Query(description=f"The state at this time (default now): {ALLOWED}.", examples=["5m"])]
Node = Annotated[str | None, Query(description="Only items of this node.")]
Pool = Annotated[
    str | None,
    Query(
        description="Only items of nodes of this pool. A filter: an unknown pool gives an empty list; "
        "only a name in a path must exist."
    ),
]
OnlyTier = Annotated[Tier | None, Query(description="Only items of this tier.")]
OnlyQos = Annotated[QoSClass | None, Query(description="Only items of this QoS class.")]
OnlyLiveness = Annotated[Liveness | None, Query(description="Only nodes in this state.")]
Label = Annotated[
    list[str] | None,
    Query(description="Only nodes with this label, as `name=value` or `name`; all of them if repeated."),
]


def wanted_labels(given: list[str] | None) -> list[tuple[str, str | None]]:
    """Labels as (name, value or None for any). Raises InvalidInput for one without a name."""
    labels = []
    for label in given or []:
        name, equals, value = label.partition("=")
        if not name:
            raise InvalidInput(f"label: {label!r} has no name; allowed: name=value or name", field="label")
        labels.append((name, value if equals else None))
    return labels
