"""What `slackwater exec` accepts: flags in, a Pod out, or InvalidInput that names the flag."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from slackwater.model.errors import InvalidInput
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources, parse_cpu_milli, parse_memory_bytes
from slackwater.model.tiers import DEFAULT_PRIORITY, PRIORITY_RANGES, QoSClass, Tier, default_qos
from slackwater.waterline.facts.eviction_marks import PROTECTED

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,252}")
_VALUE = re.compile(r"[A-Za-z0-9]?[A-Za-z0-9._-]{0,62}")
_ALLOWED_QOS = {
    Tier.PROD: frozenset({QoSClass.LSE, QoSClass.LSR, QoSClass.LS, QoSClass.SYSTEM}),
    Tier.MID: frozenset({QoSClass.LS, QoSClass.BE}),
    Tier.BATCH: frozenset({QoSClass.BE}),
    Tier.FREE: frozenset({QoSClass.BE}),
}
HARD_MEMORY_TIERS = frozenset({Tier.BATCH, Tier.FREE})
"""Tiers whose memory request is also a hard limit: borrowed memory must never push its owner into reclaim."""

USUAL_PERIOD_MS, LONGEST_PERIOD_MS = 100, 1000
"""CFS periods: the kernel's own, and its longest. What a group may use of a period it uses at once, and all throttled
groups begin together: with the longest, eight pods of 40 milli-cores have two CPUs busy for a sixth of every second
(decision 0094). Where batch is not scheduled as idle, long ones are the gentler ones (decision 0094)."""
LEAST_LIMIT_MILLI = 10


@dataclass(frozen=True, slots=True)
class Command:
    """The flags of `slackwater exec` as typed; None where one was not given."""

    tier: str
    cpu: str
    memory: str
    workload: str
    qos: str | None = None
    name: str | None = None
    namespace: str = "default"
    priority: int | None = None
    arguments: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """Each KEY=VALUE."""
    cpu_limit: str | None = None
    cpu_period_ms: int = USUAL_PERIOD_MS


def admit(command: Command, uid: str, now: datetime) -> Pod:
    """The pod that this command is to be. Raises InvalidInput on the first flag that is wrong."""
    tier = _tier(command.tier)
    if not command.arguments:
        raise InvalidInput("CMD: nothing to run; give the command after --", field="CMD")
    cpu = parse_cpu_milli(command.cpu, "--cpu")
    memory = parse_memory_bytes(command.memory, "--memory")
    if memory == 0 and tier in HARD_MEMORY_TIERS:
        raise InvalidInput(
            f"--memory: {command.memory!r} must be above 0: it is the hard limit of a {tier} pod", field="--memory"
        )
    if command.memory.strip().endswith(("n", "u", "m")):
        raise InvalidInput(
            f"--memory: {command.memory!r} is {memory} bytes, because m is a thousandth; write Mi or Gi",
            field="--memory",
        )
    workload = _name(command.workload, "--workload")
    return Pod(
        uid=uid,
        name=_name(command.name, "--name") if command.name is not None else f"{workload[:50]}-{uid[-8:]}",
        namespace=_name(command.namespace, "--namespace"),
        workload=workload,
        tier=tier,
        qos=_qos(command.qos, tier),
        priority=_priority(command.priority, tier),
        request=Resources(cpu, memory),
        started_at=now,
        labels=_labels(command.labels),
    )


def cpu_limit_milli(command: Command) -> int | None:
    """The limit that the pod begins with and, once throttled, gets back; None = none. Raises InvalidInput."""
    if command.cpu_limit is None:
        return None
    limit = parse_cpu_milli(command.cpu_limit, "--cpu-limit")
    if limit < LEAST_LIMIT_MILLI:
        raise InvalidInput(
            f"--cpu-limit: {command.cpu_limit!r} is too little; allowed: {LEAST_LIMIT_MILLI}m (the kernel's least at "
            "its usual period) or more",
            field="--cpu-limit",
        )
    return limit


def cfs_period_us(command: Command) -> int:
    """The period in which the pod's CPU limit, should it ever get one, is counted. Raises InvalidInput."""
    if not USUAL_PERIOD_MS <= command.cpu_period_ms <= LONGEST_PERIOD_MS:
        raise InvalidInput(
            f"--cpu-period-ms: {command.cpu_period_ms} is not allowed: {USUAL_PERIOD_MS} to {LONGEST_PERIOD_MS}",
            field="--cpu-period-ms",
        )
    return command.cpu_period_ms * 1000


def memory_limit_bytes(pod: Pod) -> int | None:
    """The hard memory limit of a pod; None = none."""
    return pod.request.memory_bytes if pod.tier in HARD_MEMORY_TIERS else None


def _tier(text: str) -> Tier:
    try:
        return Tier(text)
    except ValueError:
        allowed = ", ".join(tier.value for tier in Tier)
        raise InvalidInput(f"--tier: {text!r} is not a tier; allowed: {allowed}", field="--tier") from None


def _qos(text: str | None, tier: Tier) -> QoSClass:
    if text is None:
        return default_qos(tier)
    allowed = sorted(qos.value for qos in _ALLOWED_QOS[tier])
    if text not in allowed:
        raise InvalidInput(
            f"--qos: {text!r} does not go with --tier {tier}; allowed: {', '.join(allowed)}", field="--qos"
        )
    return QoSClass(text)


def _labels(texts: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not _LABEL.fullmatch(key) or not _VALUE.fullmatch(value):
            raise InvalidInput(
                f"--label: {text!r} must be KEY=VALUE, like slackwater.io/revision=7: letters, digits and -_./ in KEY, "
                "letters, digits and -_. in VALUE, at most 253 and 63 of them",
                field="--label",
            )
        if key in PROTECTED:
            raise InvalidInput(f"--label: {key} is given by the agent alone", field="--label")
        labels[key] = value
    return labels


def _priority(value: int | None, tier: Tier) -> int:
    if value is None:
        return DEFAULT_PRIORITY[tier]
    span = PRIORITY_RANGES[tier]
    if value not in span:
        raise InvalidInput(
            f"--priority: {value} is outside of tier {tier}; allowed: {span.start} to {span.stop - 1}",
            field="--priority",
        )
    return value


def _name(text: str, flag: str) -> str:
    if not _NAME.fullmatch(text):
        raise InvalidInput(
            f"{flag}: {text!r} is not a name; allowed: lower-case letters, digits, '-' and '.', at most 63, "
            "beginning and ending with a letter or digit",
            field=flag,
        )
    return text
