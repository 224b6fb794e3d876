"""Wrong versions of the node agent."""

from __future__ import annotations

from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

RESTORED, WANTED, ONCE = "every file reads as before", "limits are wanted", "evictions are carried out once"
FOLLOWED = "agents follow the newest document"
HELD, DECIDED = "ending pods are not held", "machines follow decisions"
AGENT = (
    Mutant(
        "pods are held in their grace",
        "a pod that was sent SIGTERM stays throttled and cannot write its checkpoint",
        (
            Edit(
                "agent.domain.controls.cpu_limit:_with_grace",
                "{**limits, **{uid: max(limits[uid], least) for uid in limited}}",
                "limits",
            ),
        ),
        (HELD, DECIDED),
        seed=5,
    ),
    Mutant(
        "lease never expires",
        "a document holds although nothing renews it",
        (
            Edit(
                "agent.domain.desired_state:DesiredState.lapsed_seconds",
                "return now - self.received - self.lease_seconds",
                "return -1.0",
            ),
        ),
        (WANTED,),
        faults=("cut@agent|cut answers@agent|broker unreachable",),
        seed="owners-frozen-past-their-leases.json",
    ),
    Mutant(
        "foreign value restored",
        "the agent takes any text for its own and overwrites it",
        (
            Edit(
                "agent.domain.journal:Claim.ours",
                "return present == self.previous or present in self.written",
                "return True",
            ),
        ),
        (RESTORED, WANTED),
        faults=("foreign writer", "stop@agent|crash@agent"),
        seed=79,
    ),
    Mutant(
        "limit outlives its document",
        "a limit that no document wants any more is left in force",
        (
            Edit(
                "agent.domain.convergence:_step",
                "if claim is None:\n            return None\n        done",
                'if claim is None or knob.field == "cpu_limit":\n            return None\n        done',
            ),
        ),
        (WANTED, RESTORED),
        seed=8,
    ),
    Mutant(
        "nothing restored at the end",
        "an agent that stops leaves its limits",
        (
            Edit(
                "agent.usecases.actuate:Actuator._refused",
                "self.driver.write(knob, claim.previous)",
                "pass",
            ),
        ),
        (RESTORED,),
        seed=2,
    ),
    Mutant(
        "start restores nothing",
        "an agent begins without the claims that a crashed one left",
        (Edit("agent.usecases.actuate:Actuator.recover", "self.file.load()", "Journal()"),),
        (RESTORED,),
        faults=("crash@agent|agent killed at a file",),
        seed=2,
    ),
    Mutant(
        "claims not journalled",
        "limits are written without a record on the disk",
        (
            Edit(
                "agent.usecases.actuate:Actuator._record_writes",
                "self.file.append(lines, sync=any(step.claim for step in writes))",
                "pass",
            ),
        ),
        (RESTORED,),
        faults=("crash@agent",),
        seed=6,
    ),
    Mutant(
        "journal after write",
        "a limit is recorded after it was written",
        (
            Edit(
                "agent.usecases.actuate:Actuator.perform",
                "refused = self._record_writes([step for step in steps if step.do is Do.WRITE])",
                'refused = ""',
            ),
            Edit(
                "agent.usecases.actuate:Actuator.perform",
                "self._compact()",
                "self._record_writes([step for step in steps if step.do is Do.WRITE])\n        self._compact()",
            ),
        ),
        (RESTORED,),
        faults=("agent killed at a file",),
        seed=5,
    ),
    Mutant(
        "generation not checked",
        "an agent follows whichever document comes last",
        (Edit("intents.document:is_older", "    if document.epoch", "    return False\n    if document.epoch"),),
        (FOLLOWED,),
        faults=("power of a rack fails",),
        seed=113,
    ),
    Mutant(
        "stale owner obeyed",
        "an agent ignores the epoch of a document's owner",
        (
            Edit(
                "intents.document:is_older",
                "return document.epoch < held.epoch",
                "return False",
            ),
        ),
        (FOLLOWED,),
        faults=("power of a rack fails", "freeze@ensurance|crash@ensurance|stop@ensurance|cut@ensurance"),
        seed="rack-loses-a-new-owner.json",
    ),
    Mutant(
        "ledger after the signal",
        "an eviction begins although its record is not on the disk",
        (
            Edit(
                "agent.usecases.evict:EvictPods._follow",
                "if not self._store(record, sync=False):",
                "self._records[record.id] = record\n            if False:",
            ),
        ),
        (ONCE,),
        evicts=True,
        seed="eviction-on-a-read-only-disk.json",
    ),
    Mutant(
        "protected pods evicted",
        "neither the planner nor the agent spares protected pods",
        (
            Edit("waterline.analysis.demands:protection", "pod.is_system or pod.qos is QoSClass.SYSTEM", "False"),
            Edit(
                "agent.usecases.evict:EvictPods.consider",
                "protected = None if pod is None else protection_reason(pod) or self.driver.protected(pod.uid)",
                "protected = None",
            ),
        ),
        (ONCE,),
        evicts=True,
        size=(3, 240.0),
        seed=13,
    ),
)
