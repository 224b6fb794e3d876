"""Wrong versions of what decision records say, and of actions that follow no record."""

from __future__ import annotations

from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

REPEATED, CHANGED, FOLLOWED = "records can be repeated", "changes are recorded", "machines follow decisions"
DECISIONS = (
    Mutant(
        "record forgets the pods",
        "the record of an offer leaves out the pods from which it was computed",
        (Edit("offers.offer:replay_of_all", "pods=_counted(snapshot.pods)", "pods=()"),),
        (REPEATED,),
        seed=2,
    ),
    Mutant(
        "record forgets limits in force",
        "the record of a plan leaves out the limits from which it was made",
        (
            Edit(
                "ensurance.usecases.answer_report:_decided",
                "record_of(new_id(), plan, cycle, source)",
                "(lambda made: made.model_copy(update={'replay': made.replay.model_copy(update={'arguments': {"
                "**made.replay.arguments, 'state': {**made.replay.arguments['state'], 'throttles': []}}})}))"
                "(record_of(new_id(), plan, cycle, source))",
            ),
        ),
        (REPEATED,),
        seed=3,
    ),
    Mutant(
        "restore without a record",
        "ensurance gives limits back and publishes no record of it",
        (
            Edit(
                "ensurance.usecases.guard_node:GuardNode._commit",
                "enumerate(one for one in answer.decided if one.is_published)",
                'enumerate(one for one in answer.decided if one.is_published and one.record.kind != "restore")',
            ),
        ),
        (CHANGED,),
        seed=3,
    ),
    Mutant(
        "limit beside its decision",
        "a document asks for one milli-core less than its decision",
        (
            Edit(
                "ensurance.domain.node_state:GuardedNode.limits",
                "return tuple((t,",
                "return tuple((replace(t, limit_milli=t.limit_milli - 1),",
            ),
        ),
        (CHANGED,),
        seed=3,
    ),
    Mutant(
        "agent limits less than asked",
        "the agent sets each CPU limit 5 % above what the document wants",
        (
            Edit(
                "agent.domain.controls.cpu_limit:eased",
                "        return limit_milli\n",
                "        return limit_milli + limit_milli // 20\n",
            ),
        ),
        (FOLLOWED,),
        seed=3,
    ),
    Mutant(
        "disconnected decisions are not published",
        "an agent that decides alone publishes no record",
        (
            Edit(
                "agent.usecases.disconnected_mode:DisconnectedMode.decide",
                'self.publisher.decided(f"decision/{self._decided % DECISIONS_KEPT}", record, self.guard.held.event)',
                "pass",
            ),
        ),
        (FOLLOWED,),
        faults=("cut@agent|cut answers@agent|broker unreachable",),
        size=(3, 240.0),
        seed=14,
    ),
)
