"""Which processes the kernel ends first when memory is short: oom_score_adj by tier, as a kubelet sets it by class."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from slackwater.model.tiers import Tier

OOM_SCORE_ADJ: Mapping[Tier, int] = MappingProxyType({Tier.PROD: -997, Tier.MID: 500, Tier.BATCH: 950, Tier.FREE: 1000})
"""prod as the kubelet's class Guaranteed (-997), free as BestEffort (1000); the others in between, as Burstable."""
