"""Wrong versions of what guards against an agent that lies or floods, and against messages that no broker takes."""

from __future__ import annotations

from tests.world.mutants.decisions import CHANGED
from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

FACTS, PUBLISHED = "facts are found once", "committed events are published once"
ATTACKS = (
    Mutant(
        "one rate for all agents",
        "what one agent publishes too fast is left unread of all",
        (
            Edit(
                "bus.consume.agent_rates:AgentRates.allows",
                "return self._rates.acquire(node, at_seconds)",
                'return self._rates.acquire("", at_seconds)',
            ),
        ),
        ("acknowledged reports are stored",),
        faults=("an agent floods",),
        seed=79,
        size=(3, 200.0),
    ),
    Mutant(
        "subject not compared",
        "an agent answers in the name of another node",
        (Edit("bus.codec.cloudevents:decode_on", "if subject != event.subject:", "if False:"),),
        (CHANGED,),
        faults=("an agent answers for another",),
        size=(3, 200.0),
        seed=48,
        evicts=True,
    ),
    Mutant(
        "answers by id alone",
        "the answer to an eviction or a start counts from any node",
        (Edit("migration.domain.stored_jobs:answer_key", 'return f"{node}/{identity}"', "return identity"),),
        ("jobs say what became of pods",),
        faults=("an agent answers for another",),
        size=(10, 120.0),
        seed=74,
        moves=True,
    ),
    Mutant(
        "full stream refuses for good",
        "an event that a full stream does not take is set aside",
        (
            Edit(
                "bus.connect.publisher:StreamPublisher.store",
                'if answer["error"].get("err_code") == MESSAGE_TOO_LARGE:',
                "if True:",
            ),
        ),
        (FACTS, PUBLISHED),
        faults=("a stream full",),
        seed=32,
    ),
    Mutant(
        "large message tried for ever",
        "an event that the broker never takes is not set aside",
        (
            Edit(
                "bus.connect.publisher:_refuse_unsendable",
                'raise InvalidInput(text, code="message_too_large")',
                "raise Unavailable(text)",
            ),
        ),
        (FACTS,),
        faults=("a message too large",),
        seed=8,
    ),
    Mutant(
        "expanding document accepted",
        "a document is stored whose rules fit no intent",
        (
            Edit(
                "ensurance.usecases.documents_in_force:RulesHooks.validate_together",
                "if excess := _excess(encode_rules(rules.policies, rules.options(Mode.EVICT))):",
                "if False:",
            ),
        ),
        ("documents are found once",),
        faults=("a document that expands",),
        size=(3, 200.0),
        seed=127,
    ),
)
