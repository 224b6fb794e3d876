"""The configuration of a pull consumer, with the server's defaults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.jetstream.api_errors import require_modelled
from tests.support.jetstream.pull_request import NANOSECONDS

DEFAULT_ACK_WAIT_SECONDS, DEFAULT_MAX_ACK_PENDING = 30.0, 1000
INACTIVE_SECONDS = 5.0
"""How long an ephemeral consumer without requests is kept, where its declaration names no time."""
_MODELLED: Mapping[str, Collection[Any] | None] = {
    "name": None,
    "durable_name": None,
    "description": None,
    "metadata": None,
    "deliver_policy": ("all", "new", "last_per_subject", "by_start_sequence", "by_start_time"),
    "opt_start_seq": None,
    "opt_start_time": None,
    "ack_policy": ("none", "explicit"),
    "ack_wait": None,
    "max_deliver": (-1, 0),
    "max_ack_pending": None,
    "filter_subject": None,
    "filter_subjects": None,
    "replay_policy": ("instant",),
    "headers_only": None,
    "mem_storage": None,
    "inactive_threshold": None,
    "max_waiting": None,
    "num_replicas": (0, 1),
    "idle_heartbeat": (0,),
    "flow_control": (False,),
}
"""Keys of a consumer's configuration, with the values that are modelled: pull consumers, delivered without limit."""


@dataclass(frozen=True, slots=True)
class ConsumerLimits:
    """What a configuration says about deliveries."""

    filters: tuple[str, ...]
    acknowledges: bool
    ack_wait_seconds: float
    most_unacknowledged: int
    has_headers_only: bool
    inactive_seconds: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> ConsumerLimits:
        """Parse a configuration of the API. Raises Unmodelled."""
        require_modelled("consumer", config, _MODELLED)
        only = config.get("filter_subject")
        return cls(
            filters=tuple(config.get("filter_subjects") or ([only] if only else [])),
            acknowledges=config.get("ack_policy", "none") != "none",
            ack_wait_seconds=config.get("ack_wait", 0) / NANOSECONDS or DEFAULT_ACK_WAIT_SECONDS,
            most_unacknowledged=config.get("max_ack_pending") or DEFAULT_MAX_ACK_PENDING,
            has_headers_only=bool(config.get("headers_only")),
            inactive_seconds=config.get("inactive_threshold", 0) / NANOSECONDS or INACTIVE_SECONDS,
        )
