"""Closed enums of decision kinds, modes and reasons.

Events, metrics, records, the API and the CLI use the same values. A reason is never reused for another meaning.
"""

from __future__ import annotations

from enum import StrEnum


class DecisionKind(StrEnum):
    """The kind of a decision."""

    PREDICTION = "prediction"
    OFFER = "offer"
    THROTTLE = "throttle"
    RESTORE = "restore"
    EVICT = "evict"
    AUTONOMY = "autonomy"
    SCHEDULING = "scheduling"
    """Whether the node is cordoned for new pods."""
    STATUS = "status"
    """What the status of a Kubernetes node shows of its offer."""
    CLAIM = "claim"
    """Whether a claim on a quota is admitted, waits, is refused or has to end."""
    DESCHEDULE = "deschedule"
    """Which pods a profile proposes to move."""
    MIGRATION = "migration"
    """Whether the move of a pod is admitted or held, and each of its steps."""
    CPUSET = "cpuset"
    """Which CPUs the pods of a machine have, and how large its pools are."""


class Mode(StrEnum):
    """The strongest action that a pool allows: recording only, throttling, or eviction."""

    OBSERVE = "observe"
    THROTTLE = "throttle"
    EVICT = "evict"


class Reason(StrEnum):
    """The reason of a decision. The prefix is its kind."""

    PREDICTION_WINDOW_FOLDED = "prediction_window_folded"
    OFFER_FIRST = "offer_first"
    OFFER_CHANGED = "offer_changed"
    OFFER_STRATEGY_CHANGED = "offer_strategy_changed"
    OFFER_HEALED = "offer_healed"
    OFFER_DEGRADED = "offer_degraded"
    OFFER_RECOVERED = "offer_recovered"
    THROTTLE_WATERLINE_CROSSED = "throttle_waterline_crossed"
    THROTTLE_OBSERVED_ONLY = "throttle_observed_only"
    THROTTLE_LEFT_TO_WEIGHTS = "throttle_left_to_weights"
    RESTORE_HEADROOM = "restore_headroom"
    RESTORE_COMPLETE = "restore_complete"
    RESTORE_MODE_CHANGED = "restore_mode_changed"
    RESTORE_WITHOUT_EFFECT = "restore_without_effect"
    EVICT_WATERLINE_CROSSED = "evict_waterline_crossed"
    EVICT_OBSERVED_ONLY = "evict_observed_only"
    AUTONOMY_STEPPED_BACK = "autonomy_stepped_back"
    AUTONOMY_REINSTATED = "autonomy_reinstated"
    SCHEDULING_WATERLINE_CROSSED = "scheduling_waterline_crossed"
    SCHEDULING_OBSERVED_ONLY = "scheduling_observed_only"
    SCHEDULING_CALM = "scheduling_calm"
    SCHEDULING_RULES_GONE = "scheduling_rules_gone"
    SCHEDULING_MODE_CHANGED = "scheduling_mode_changed"
    SCHEDULING_NOT_MEASURED = "scheduling_not_measured"
    SCHEDULING_LAPSED = "scheduling_lapsed"
    STATUS_OFFER_CHANGED = "status_offer_changed"
    STATUS_OFFER_WITHDRAWN = "status_offer_withdrawn"
    STATUS_WITHOUT_OFFER = "status_without_offer"
    STATUS_DISABLED = "status_disabled"
    CLAIM_ADMITTED_WITHIN_MIN = "claim_admitted_within_min"
    CLAIM_ADMITTED_WITHIN_RUNTIME = "claim_admitted_within_runtime"
    CLAIM_ADMITTED_BORROWED = "claim_admitted_borrowed"
    CLAIM_ADMITTED_RESERVED = "claim_admitted_reserved"
    CLAIM_REFUSED_UNKNOWN_QUOTA = "claim_refused_unknown_quota"
    CLAIM_REFUSED_PARENT_QUOTA = "claim_refused_parent_quota"
    CLAIM_REFUSED_ABOVE_MAX = "claim_refused_above_max"
    CLAIM_REFUSED_ABOVE_MIN = "claim_refused_above_min"
    CLAIM_QUEUED_BEHIND = "claim_queued_behind"
    CLAIM_QUEUED_LIMIT = "claim_queued_limit"
    CLAIM_QUEUED_CAPACITY = "claim_queued_capacity"
    CLAIM_QUEUED_KEPT = "claim_queued_kept"
    CLAIM_QUEUED_RECLAIMING = "claim_queued_reclaiming"
    CLAIM_QUEUED_DELAY = "claim_queued_delay"
    CLAIM_QUEUED_BUDGET = "claim_queued_budget"
    CLAIM_QUEUED_GRANT = "claim_queued_grant"
    CLAIM_QUEUED_BACKOFF = "claim_queued_backoff"
    CLAIM_QUEUED_BEYOND_POOL = "claim_queued_beyond_pool"
    CLAIM_RECLAIMED_LENDER_MIN = "claim_reclaimed_lender_min"
    CLAIM_RECLAIMED_ABOVE_RUNTIME = "claim_reclaimed_above_runtime"
    CLAIM_RECLAIMED_HIGHER_PRIORITY = "claim_reclaimed_higher_priority"
    CLAIM_RECLAIMED_POOL_SHRUNK = "claim_reclaimed_pool_shrunk"
    CLAIM_FOUND_ENDED = "claim_found_ended"
    CLAIM_FOUND_NEVER_STARTED = "claim_found_never_started"
    CLAIM_FOUND_NEVER_CLAIMED = "claim_found_never_claimed"
    CLAIM_FOUND_NOT_ADMITTED = "claim_found_not_admitted"
    CLAIM_FOUND_AFTER_END = "claim_found_after_end"
    CLAIM_FOUND_BEYOND_CLAIM = "claim_found_beyond_claim"
    CLAIM_FOUND_RECLAIM_WITHOUT_EFFECT = "claim_found_reclaim_without_effect"
    DESCHEDULE_PROPOSED = "deschedule_proposed"
    DESCHEDULE_DRY_RUN = "deschedule_dry_run"
    DESCHEDULE_NOTHING = "deschedule_nothing"
    DESCHEDULE_LOOPING = "deschedule_looping"
    DESCHEDULE_STALE = "deschedule_stale"
    MIGRATION_ADMITTED = "migration_admitted"
    MIGRATION_HELD = "migration_held"
    MIGRATION_REFUSED = "migration_refused"
    MIGRATION_STEPPED = "migration_stepped"
    MIGRATION_SUCCEEDED = "migration_succeeded"
    MIGRATION_FAILED = "migration_failed"
    MIGRATION_ABORTED = "migration_aborted"
    MIGRATION_MEASURED = "migration_measured"
    CPUSET_ALLOCATED = "cpuset_allocated"
    CPUSET_RELEASED = "cpuset_released"
    CPUSET_RESIZED = "cpuset_resized"
    CPUSET_REFUSED = "cpuset_refused"


ONLY_TOLD = frozenset(
    {
        Reason.THROTTLE_OBSERVED_ONLY,
        Reason.THROTTLE_LEFT_TO_WEIGHTS,
        Reason.EVICT_OBSERVED_ONLY,
        Reason.SCHEDULING_OBSERVED_ONLY,
        Reason.DESCHEDULE_DRY_RUN,
    }
)
"""Reasons of decisions that are recorded but never carried out: the mode of the pool does not allow them, or CPU
weights make them needless."""
