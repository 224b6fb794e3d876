"""Histories of nodes as real clusters make them, and what may be on them after each write: Slackwater's keys alone.

A history is drawn from a seed. It names the form of a node and steps: what the service is told, what others write.
`Model` says what the node must look like after each step; whatever is not Slackwater's is as others wrote it.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from slackwater.apiserver.records import CORDON_TAINT
from slackwater.apiserver.resource_names import ALIAS_DOMAIN, LENT_NAMES, OWN_DOMAIN, quantities

Document = dict[str, Any]
PARTS: Final = ("capacity", "allocatable")
CPU, MEMORY, MID = (f"{OWN_DOMAIN}/{subject}" for subject in ("batch-cpu", "batch-memory", "mid-cpu"))
ALIAS: Final = f"{ALIAS_DOMAIN}/batch-cpu"
RIVAL: Final = "koord-manager"
GIB: Final = 1 << 30
AMOUNTS: Final = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "9Gi", "example.com/gpu": "2"}

SPEC: Final[Document] = {
    "providerID": "kind://a/b",
    "taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}],
}
REPORTED: Final[Document] = {
    "addresses": [{"type": "Hostname", "address": "h"}],
    "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m"}],
    "images": [{"names": ["a:1"], "sizeBytes": 7}],
}
"""What a kubelet reports beside amounts."""


class Form(StrEnum):
    """How a node came to be."""

    REGISTERED = "registered"
    """By a kubelet: labels, and the status in the same request, so that its fields have no manager."""
    WITHOUT_LABELS = "without-labels"
    """The server notes no managers before the first apply."""
    REPORTED = "reported"
    """Registered, and a kubelet has written all amounts since."""
    IN_PART = "in-part"
    """Registered, and a kubelet has written allocatable since, and nothing of capacity."""
    WITHOUT_STATUS = "without-status"
    WITHOUT_ALLOCATABLE = "without-allocatable"
    """Registered with its capacity alone."""
    SHARED = "shared"
    """Registered, and other managers have written single amounts since: one by an apply, one of capacity alone."""
    WITHOUT_MANAGERS = "without-managers"
    """The notes on managers were removed."""
    WITH_OWN_NAME = "with-own-name"
    """Registered with an amount under a name of Slackwater, and under an alias."""
    RIVALLED = "rivalled"
    """Another controller lends on it under a name of Slackwater, and under an alias."""


class Step(StrEnum):
    OFFER = "offer"
    FALL = "fall"
    LESS_NAMES = "less-names"
    """The offer has no mid amounts any more."""
    WITHDRAW = "withdraw"
    RESTART = "restart"
    DISABLE = "disable"
    FORGET = "forget"
    """The offers are lost, and the service starts anew: its amounts are orphans."""
    RESET = "reset"
    """The kubelet registers again and sets extended resources to 0."""
    REPORT = "report"
    """The kubelet writes its own amounts."""
    RIVAL = "rival"
    """Another controller takes a name over."""
    RIVAL_IN_PART = "rival-in-part"
    """Another controller takes a name over in allocatable alone."""
    RIVAL_APPLIES = "rival-applies"
    """Another controller takes two names over by a server-side apply with force."""
    RIVAL_LEAVES = "rival-leaves"
    EMPTIED = "emptied"
    """The kubelet withdraws its own amounts to 0, and brings them back."""
    CORDON = "cordon"
    TAINT = "taint"
    """An administrator taints, labels and annotates the node."""
    ALIASES = "aliases"
    """The service starts anew with the other setting of aliases."""
    REPLACED = "replaced"
    """The machine is deleted, and another registers under its name."""


OFFERS: Final = (Step.OFFER, Step.FALL, Step.LESS_NAMES, Step.WITHDRAW)


@dataclass(frozen=True, slots=True)
class History:
    form: Form
    aliases: bool
    steps: Sequence[Step]


def drawn(form: Form, seed: int, length: int = 7) -> History:
    """A history that a seed stands for."""
    draw = random.Random(f"{form}/{seed}")
    return History(form, draw.random() < 0.5, [Step.OFFER, *(draw.choice(list(Step)) for _ in range(length))])


def document_of(form: Form, name: str) -> Document:
    """What a kubelet posts."""
    status: Document = {part: dict(AMOUNTS) for part in PARTS}
    status |= copy.deepcopy(REPORTED)
    if form is Form.WITHOUT_ALLOCATABLE:
        del status["allocatable"]
    if form is Form.WITH_OWN_NAME:
        for part in PARTS:
            status[part] |= {CPU: "700", ALIAS: "800"}
    labels = {} if form is Form.WITHOUT_LABELS else {"labels": {"kubernetes.io/hostname": name, "zone": "a"}}
    metadata, spec = {"name": name, **labels}, copy.deepcopy(SPEC)
    return {"metadata": metadata, "spec": spec, **({} if form is Form.WITHOUT_STATUS else {"status": status})}


@dataclass(slots=True)
class Model:
    """What the node must have. `amounts` are those of others, `offered` what Slackwater lends (none: nothing)."""

    aliases: bool
    amounts: dict[str, dict[str, str]] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    offered: dict[str, int] = field(default_factory=dict)
    in_part: set[str] = field(default_factory=set)
    """Names of `foreign` that are in allocatable alone."""

    def note(self, document: Document) -> None:
        """Take up the node as it is before Slackwater writes."""
        self.amounts = {part: dict(document.get("status", {}).get(part, {})) for part in PARTS}

    def offer(self, step: Step, draw: random.Random) -> None:
        """What the next offer lends."""
        if step is Step.OFFER:
            self.offered = {"batch-cpu": draw.randrange(500, 9_000), "batch-memory": draw.randrange(1, 9) * GIB}
            self.offered |= {"mid-cpu": draw.randrange(1, 900), "mid-memory": 0} if draw.random() < 0.5 else {}
        elif step is Step.FALL:
            self.offered = {subject: amount // 2 for subject, amount in self.offered.items()}
        elif step is Step.LESS_NAMES:
            self.offered = {subject: amount for subject, amount in self.offered.items() if subject.startswith("batch")}
        else:
            self.offered = {}

    def wanted(self) -> Mapping[str, int]:
        """What the service must have written."""
        domains = (OWN_DOMAIN, ALIAS_DOMAIN) if self.aliases else (OWN_DOMAIN,)
        names = {f"{domain}/{subject}": amount for domain in domains for subject, amount in self.offered.items()}
        return {name: amount for name, amount in names.items() if name not in self.foreign}

    def status(self) -> Mapping[str, Mapping[str, str]]:
        """Capacity and allocatable."""
        own = quantities({**self.foreign, **self.wanted()})
        both = {part: {**self.amounts[part], **own} for part in PARTS}
        for name in self.in_part:
            del both["capacity"][name]
        return {part: amounts for part, amounts in both.items() if amounts}


def status_of(document: Document) -> Mapping[str, Mapping[str, str]]:
    """Capacity and allocatable of a node; empty ones are left out."""
    return {part: amounts for part in PARTS if (amounts := document.get("status", {}).get(part))}


def others_of(document: Document) -> Document:
    """A node without Slackwater's keys and without what the server counts and notes by itself."""
    rest = copy.deepcopy(document)
    for name in ("resourceVersion", "managedFields", "generation"):
        rest["metadata"].pop(name, None)
    status = rest.setdefault("status", {})
    for part in PARTS:
        for name in LENT_NAMES & status.get(part, {}).keys():
            del status[part][name]
        if not status.get(part):
            status.pop(part, None)
    spec = rest.setdefault("spec", {})
    taints = [taint for taint in spec.pop("taints", None) or () if taint["key"] != CORDON_TAINT]
    return {**rest, "spec": {**spec, **({"taints": taints} if taints else {})}}
