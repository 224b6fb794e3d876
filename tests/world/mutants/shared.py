"""Wrong versions of what all services share: transactions, outbox, ownership, delivery."""

from __future__ import annotations

from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

PUBLISHED, RECEIVED = "committed events are published once", "acknowledged reports are stored"
FACTS = "facts are found once"
SHARED = (
    Mutant(
        "fence skipped",
        "a transaction commits without a check of its leases",
        (
            Edit(
                "store.unit_of_work:PostgresUnitOfWork.flush",
                "guard = self._guard if self._concerned else None",
                "guard = None",
            ),
        ),
        ("fencing",),
        faults=("cut requests@ensurance|cut@ensurance|freeze@ensurance|cut requests@ingestion|cut@ingestion",),
        size=(3, 240.0),
        seed="writer-frozen-in-a-transaction.json",
    ),
    Mutant(
        "ack before commit",
        "a message is acknowledged before its handler has committed",
        (
            Edit(
                "bus.consume.settlement:Settler._handle",
                "    waited_seconds = 0.0\n",
                "    waited_seconds = 0.0\n    for delivery, _ in pairs:\n        await delivery.ack()\n",
            ),
        ),
        (RECEIVED,),
        seed=2,
    ),
    Mutant(
        "outbox by id",
        "the relay reads the outbox by event id instead of by commit",
        (Edit("store.outbox:_FIRST", "ORDER BY position", "ORDER BY id"),),
        (PUBLISHED, "generations are used once"),
        faults=("broker unreachable|broker killed|power of the broker fails",),
        seed=13,
    ),
    Mutant(
        "published rows stay",
        "the relay never deletes what it has published, and publishes it again",
        (
            Edit(
                "store.outbox:OutboxRelay._exchange",
                "    if published:\n",
                "    published = []\n    if published:\n",
            ),
        ),
        (PUBLISHED, "generations are used once", "nothing grows at rest"),
        seed=3,
    ),
    Mutant(
        "relay marks before publish",
        "a row counts as published before the broker has answered",
        (
            Edit(
                "store.outbox_sender:OutboxSender._send_rows",
                "        try:\n            await self._publish(row)",
                '        self._outcome.published.append(row["position"])\n'
                "        try:\n            await self._publish(row)",
            ),
        ),
        (
            PUBLISHED,
            "generations are used once",
        ),
        faults=("broker unreachable|broker killed|power of the broker fails",),
        seed=2,
    ),
    Mutant(
        "message id left out",
        "messages have no id, so that the broker stores a repeated one again",
        (Edit("bus.codec.cloudevents:encode", "        MESSAGE_ID: identifier,\n", ""),),
        (PUBLISHED, FACTS),
        faults=("cut answers|lossy link|disconnect|slow link",),
        seed="answers-of-the-broker-lost.json",
    ),
    Mutant(
        "retry under a new id",
        "each attempt to publish an outbox row gives the event a new id",
        (
            Edit(
                "store.outbox_rows:written_from",
                "id=identifier,",
                'id=identifier if not type_name.startswith("usage") else identifier[:-1] + identifier[0],',
            ),
        ),
        (PUBLISHED,),
        seed=2,
    ),
    Mutant(
        "dead letter instead of retry",
        "a message that meets an outage becomes a dead letter",
        (
            Edit(
                "bus.consume.handlers:_retry",
                "return Retry(error.message, away=True, outage=isinstance(error, Unavailable))",
                'return Reject("unavailable", error.message)',
            ),
        ),
        ("no valid message is a dead letter",),
        faults=("database down|database is read-only|commit answers lost",),
        seed=2,
    ),
    Mutant(
        "inbox forgotten",
        "a redelivered event is handled again, and changes what newer ones have said (alone, the inbox is spared: "
        "colocation ignores inputs older than those it has, and its gates count a window once)",
        (
            Edit("store.inbox:first_time", "noted.first() is not None", "True"),
            Edit("store.inbox:first_times", "set(noted.scalars())", "set(event_ids)"),
            Edit("offers.node:is_older", "return ", "return False and "),
            Edit("offers.node:with_usage", "measured.end < state.window_end", "False"),
        ),
        ("events are handled once", "generations are used once"),
        faults=("consumer lost",),
        seed=57,
    ),
)
