"""Defects that were in the product once: each entry takes the fix of a commit out again."""

from __future__ import annotations

from tests.world.mutants.agent import FOLLOWED, ONCE, RESTORED, WANTED
from tests.world.mutants.decisions import CHANGED
from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit
from tests.world.mutants.services import COUNT
from tests.world.world import ENDS_AS_DECLARED

LETTERS, LOGGED = "no valid message is a dead letter", "no defect is logged"
MENDED = (
    Mutant(
        "commit again after a lost answer",
        "a second commit of an event that still waits in the outbox violates its key",
        (Edit("store.unit_of_work:_last_exchange", " ON CONFLICT (id) DO NOTHING", ""),),
        (LOGGED, LETTERS, ENDS_AS_DECLARED),
        mended="48fb3d79",
        faults=(
            "commit answers lost",
            "slow link@prediction|cut answers@prediction|cut requests@prediction|lossy link@prediction",
        ),
        seed="commits-without-answers.json",
    ),
    Mutant(
        "read-only database is a defect",
        "a PostgreSQL that takes no writes makes dead letters of valid facts",
        (
            Edit(
                "store.driver_errors:_AWAY",
                ("08", "57P", "53", "57014", "25P03", "25006", "28", "3D000"),
                ("08", "57P", "53", "57014", "25P03"),
            ),
        ),
        (LETTERS, LOGGED),
        mended="f2cef285",
        faults=("database is read-only",),
        seed=1,
    ),
    Mutant(
        "outage of the leases is an attempt",
        "messages given back unread count as tried, and become dead letters",
        (
            Edit(
                "bus.consume.partition_ownership:OwnedDelivery.deliveries",
                "return max(1, self._delivery.deliveries - self._returned)",
                "return self._delivery.deliveries",
            ),
            Edit(
                "bus.consume.partition_ownership:Unsettled._return_unread",
                "RETURN_SECONDS if before else 0",
                "0",
            ),
            Edit("bus.consume.partitions:PartitionedPuller._may_request", " and self._holds(partition.number)", ""),
        ),
        (LETTERS,),
        mended="47b66584",
        faults=("database down|database is read-only|freeze",),
        seed=3,
    ),
    Mutant(
        "outage uses up deliveries",
        "a delivery during an outage counts against the limit",
        (
            Edit(
                "bus.consume.settlement:Settler._counted",
                "return delivery.deliveries - self._excused.get(delivery.stream_sequence, 0)",
                "return delivery.deliveries",
            ),
        ),
        (LETTERS,),
        mended="7a88db2f",
        faults=("database long read-only|few database sessions",),
        seed="agent-starts-in-an-outage.json",
    ),
    Mutant(
        "refused restore is forgotten",
        "a file that refuses its restore is dropped from the journal, and its limit stays",
        (
            Edit(
                "agent.usecases.actuate:Actuator.restore_all",
                "Journal({knob: left[knob] for knob in reversed(left)})",
                "Journal()",
            ),
        ),
        (RESTORED,),
        mended="fd720a59",
        faults=("files refuse", "stop@agent|crash@agent"),
        seed=38,
    ),
    Mutant(
        "unreadable file taken for gone",
        "a file that cannot be read now is released from the journal, and its limit stays",
        (
            Edit(
                "agent.usecases.actuate:Actuator.read_all",
                "with suppress(Misconfigured):",
                "values[knob] = None\n        with suppress(Misconfigured):",
            ),
        ),
        (RESTORED, WANTED),
        mended="20d44b06",
        faults=("files refuse",),
        seed=8,
    ),
    Mutant(
        "full disk does not stop writes",
        "limits are written although the journal could not be",
        (Edit("agent.usecases.actuate:Actuator._record_writes", "    return error.code", '    return ""'),),
        (RESTORED, WANTED),
        mended="1ccf9aa4",
        faults=("disk of an agent is full|disk of an agent is read-only", "crash@agent|agent killed at a file"),
        seed="limits-on-a-read-only-disk.json",
    ),
    Mutant(
        "late report is a gap",
        "a report that comes later is counted as missing and as received",
        (
            Edit(
                "ingestion.domain.windowing:gaps_of",
                "gaps[key] += _missing_between(row, later)",
                "gaps[key] += max(0, later.gap_delta)",
            ),
        ),
        (COUNT,),
        mended="a6d23873",
        faults=("cut answers|slow link|lossy link",),
        seed=18,
    ),
    Mutant(
        "pod evicted twice",
        "two writers each end the same pod",
        (
            Edit(
                "agent.usecases.evict:EvictPods.consider",
                "request.id in self._records or self._is_ending(request.pod_uid)",
                "request.id in self._records",
            ),
        ),
        (ONCE,),
        mended="5f3d9505",
        evicts=True,
        faults=("cut|cut answers",),
        seed="two-writers-evict-one-pod.json",
    ),
    Mutant(
        "deaf to an owner whose clock is behind",
        "a disconnected agent takes a new owner's document for a redelivery, because its time is earlier",
        (
            Edit(
                "agent.usecases.held_documents:_repeats",
                "if (now.epoch, now.generation) > (then.epoch, then.generation):",
                "if False:",
            ),
        ),
        (FOLLOWED,),
        mended="ad4c4fd8",
        skewed=True,
        faults=("crash@ensurance|freeze@ensurance|stop@ensurance|cut@ensurance",),
        seed="takeover-by-a-clock-behind.json",
    ),
    Mutant(
        "unread ledger begins evictions",
        "an eviction begins while the disk of the agent is full",
        (
            Edit(
                "agent.usecases.evict:EvictPods._follow",
                "if not self._store(record, sync=False):",
                "if not self._store(record, sync=False) and False:",
            ),
        ),
        (ONCE,),
        mended="1ccf9aa4",
        evicts=True,
        faults=("disk of an agent is full|disk of an agent is read-only",),
        seed="eviction-on-a-read-only-disk.json",
    ),
    Mutant(
        "earlier boot replaces the agent",
        "a report of a boot that was never seen and comes late replaces the running agent",
        (Edit("ingestion.domain.sequences:order_of", "measured_at > newest_at", "measured_at is not None"),),
        ("running agents are counted",),
        faults=(
            "agent restarts again and again",
            "database down|database is read-only|database long read-only|cut answers@ingestion|freeze@ingestion",
        ),
        seed="late-report-of-an-earlier-boot.json",
    ),
    Mutant(
        "unread pod left out",
        "a pod whose limit cannot be read is not in the report, and its limit goes without a record",
        (
            Edit(
                "agent.usecases.converge:ConvergeToIntents.limits",
                "limits[pod.uid] = self._last_read.get(pod.uid, (None, None))",
                "continue",
            ),
        ),
        (CHANGED,),
        mended="d522e82f",
        faults=("files refuse",),
        seed="../../regressions/pods-that-cannot-be-read.json",
    ),
    Mutant(
        "report of a clock set forward is a gap",
        "a report that its agent's clock has put into a later window is missing in the one before",
        (
            Edit(
                "ingestion.domain.windowing:_missing_between",
                "absent if later.gap_delta < 0 else min(absent, later.gap_delta)",
                "absent",
            ),
        ),
        (COUNT,),
        mended="6ffaa07d",
        faults=("clock jump@agent",),
        seed="../../regressions/report-of-a-clock-set-forward.json",
    ),
    Mutant(
        "lost document not declared again",
        "a document that the broker lost with its power is declared again only when it changes",
        (
            Edit(
                "intents.contacts:Contacts.stays_outdated",
                "return since is not None and",
                "return False and since is not None and",
            ),
        ),
        (FOLLOWED,),
        mended="dea2a366",
        faults=("power of the broker fails|power of a rack fails", "cut@agent|cut requests@agent|agent cut off"),
        seed="../../regressions/document-lost-with-the-broker.json",
    ),
    Mutant(
        "rows of an unknown type stay refused",
        "a row that an older relay refused is never sent",
        (Edit("store.outbox:_PENDING", "refused LIKE", "refused NOT LIKE"),),
        ("facts are found once",),
        mended="2d361bde",
        faults=("rolled to an older version",),
        seed=141,
    ),
)
