"""Wrong versions of migration and the descheduler: each is found in a world of moves."""

from __future__ import annotations

from functools import partial

from tests.world.mutants.mutant import Mutant, guard
from tests.world.mutants.plant import Edit

LIFE, IN_TIME, RESERVED = "jobs follow their life", "jobs end in time", "reservations have live jobs"
LIMITS, NAMED = "moves are within limits", "waiting jobs name their filter"
PODS, BECAME = "pods end by their moves", "jobs say what became of pods"
GRANTS, BUDGETS = "moves have grants", "budgets of pools hold"
PROFILES, REST, REPEATED = "proposals keep to profiles", "moves end with constant load", "records can be repeated"
ONCE, FILES, DISRUPTION = "moved pods run once", "files decide where pods go", "disruption budgets hold"
WITHDRAWN, ROOMS = "withdrawn jobs evict nothing", "pods use one reservation"
_mutant = partial(Mutant, moves=True, size=(2, 120.0))
MOVES = (
    _mutant(
        "limit counted without live migrations",
        "a round counts the jobs that it admits, and none that is under way",
        (
            Edit(
                "migration.domain.arbitration_round:snapshot_of",
                "active=[_active(stored, names) for stored in live if stored.job.step is not MigrationStep.WAITING]",
                "active=[]",
            ),
        ),
        (LIMITS, LIFE, NAMED),
        seed=1,
    ),
    _mutant(
        "reservation kept after the end",
        "the room of a move is kept until the next round, when there may be none",
        (
            Edit(
                "migration.domain.migration_round:_released",
                "if not stored.job or ledger.jobs[stored.job].is_live",
                "if True",
            ),
        ),
        (RESERVED,),
        seed=1,
    ),
    _mutant(
        "eviction asked for again under a new id",
        "what the agent has not answered yet is declared once more as another eviction",
        (
            Edit(
                "migration.domain.eviction_documents:asked_again",
                "    if stored.job.step is not MigrationStep.EVICTING or said is None:\n        return stored\n",
                "    if stored.job.step is not MigrationStep.EVICTING:\n        return stored\n"
                "    if said is None:\n        return replace(stored, attempt=stored.attempt + 1)\n",
            ),
        ),
        (PODS,),
        seed=1,
    ),
    _mutant(
        "final refusal waited for",
        "a job whose eviction was refused for good waits until its time is over",
        (
            Edit(
                "migration.domain.move_views:eviction_answer",
                "return EvictionAnswer.REFUSED if outcome is EvictionOutcome.REFUSED else EvictionAnswer.NOT_YET",
                "return EvictionAnswer.NOT_YET",
            ),
        ),
        (PODS,),
        seed=6,
    ),
    _mutant(
        "grant not asked",
        "a move begins without the grant of its pool",
        (
            Edit(
                "migration.domain.migration_round:_started",
                "if stored.job.dry_run or stored.grant.is_usable(now_s):",
                "if True:",
            ),
        ),
        (GRANTS, BUDGETS),
        seed=1,
    ),
    _mutant(
        "any grant will do",
        "an answer that gives the grant of some jobs is taken for that of all",
        (Edit("migration.domain.eviction_grant:with_answer", "if stored.job.id in said.granted:", "if True:"),),
        (GRANTS, BUDGETS),
        seed=3,
    ),
    _mutant(
        "rest of a moved workload forgotten",
        "a cycle does not keep what it has proposed",
        (
            Edit(
                "descheduler.usecases.run_cycles:RunCycles._propose",
                "await unit.add_moves(proposed_moves(kept.steps, jobs, now_s, profile.ttl_s))",
                "pass",
            ),
        ),
        (PROFILES, REST),
        seed=5,
    ),
    guard(
        "refused move stays pending",
        "the descheduler counts a pod on its target until its time is over, though its job was refused",
        "descheduler.domain.move_jobs:open_moves",
        "if job is None or not job.left_pod:",
        "if True:",
        "unit/descheduler/test_refused_moves.py",
    ),
    guard(
        "refused pod proposed again at once",
        "a pod whose move was refused is proposed in the next cycle",
        "descheduler.domain.move_jobs:open_moves",
        "elif now_s - job.changed_s < rest_s:",
        "elif False:",
        "unit/descheduler/test_refused_moves.py",
    ),
    _mutant(
        "loop detector off",
        "a workload is moved however often it was moved before",
        (
            Edit(
                "descheduling.move_history:stay_reason",
                "if len(times) >= rules.loop_moves * max(replicas, 1):",
                "if False:",
            ),
        ),
        (PROFILES, REST),
        seed=5,
    ),
    _mutant(
        "ttl counted from the submission",
        "the time of a job runs while it waits to be admitted",
        (
            Edit(
                "podmigration.jobs:MigrationJob.deadline_s",
                "else self.admitted_s + self.ttl_s",
                "else self.submitted_s + self.ttl_s",
            ),
        ),
        (IN_TIME,),
        seed=2,
    ),
    _mutant(
        "withdrawal confirmed too early",
        "an eviction counts as withdrawn as soon as the agent holds the document, also if it has begun",
        (
            Edit(
                "migration.domain.move_views:eviction_answer",
                "if generation >= stored.withdrawn_generation and waited and runs",
                "if generation >= stored.withdrawn_generation",
            ),
        ),
        (BECAME,),
        seed=1,
    ),
    _mutant(
        "one pod stands in for two",
        "two moves of a workload take the same new pod for their replacement",
        (
            Edit(
                "migration.domain.move_views:candidates",
                "is_free = claimed.get(uid, stored.job.id) == stored.job.id",
                "is_free = True",
            ),
        ),
        (BECAME,),
        seed=5,
    ),
    _mutant(
        "no limit per cycle",
        "a profile proposes what it finds",
        (
            Edit(
                "descheduling.cycle:CycleCounts.refusal",
                "if limit is not None and count >= limit",
                "if False",
            ),
        ),
        (PROFILES,),
        seed=1,
    ),
    _mutant(
        "dry runs evict",
        "a job that was to be tried is carried out",
        (Edit("podmigration.lifecycle:start", "if job.dry_run:", "if False:"),),
        (PODS, GRANTS, REPEATED),
        seed=4,
    ),
    _mutant(
        "generation of the ledger not checked",
        "a replica that stood still in the middle of a round writes over what the next one has decided since",
        (
            Edit(
                "migration.adapters.migration_rows:KeyedMigrationStore.commit",
                "await unit.keyed(STATE_ROWS, self._quarantine).replace(state, before.state.generation)",
                "stored = int(await unit.keyed(STATE_ROWS, self._quarantine).column(ARBITRATION, 'generation') or 0)\n"
                "        state = replace(state, generation=stored + 1)\n"
                "        await unit.keyed(STATE_ROWS, self._quarantine).replace(state, stored)",
            ),
        ),
        (LIFE, NAMED, PODS, BECAME, ONCE, LIMITS, REPEATED, RESERVED, GRANTS, WITHDRAWN),
        seed=26,
    ),
    _mutant(
        "abort forgotten after restart",
        "the replica that decides remembers an abort, and does not keep it in the job's row",
        (
            Edit(
                "migration.adapters.migration_rows:KeyedMigrationStore.commit",
                "await rows.write(changed)",
                "await rows.write([replace(job, job=replace(job.job, abort_requested=False)) for job in changed])",
            ),
        ),
        (WITHDRAWN,),
        seed=9,
    ),
    _mutant(
        "start sent before the eviction was answered",
        "the replacement is started as soon as the eviction is declared",
        (
            Edit(
                "podmigration.lifecycle:_evicting",
                "view.eviction is EvictionAnswer.COMPLETED or",
                "view.eviction is EvictionAnswer.COMPLETED or job.starts_replacement or",
            ),
        ),
        (ONCE,),
        seed=13,
    ),
    _mutant(
        "start asked for again under a new id",
        "the id of a start changes with each change of its job, also in a process that starts again",
        (
            Edit(
                "migration.domain.stored_jobs:StoredJob.start_id",
                "{self.job.start_attempt}",
                "{self.job.start_attempt}-{self.version}",
            ),
        ),
        (ONCE,),
        seed=13,
    ),
    _mutant(
        "failed start not taken back",
        "a workload whose start has failed stays down, although its old node could start it",
        (Edit("podmigration.lifecycle:_starting", "and view.can_return", "and False"),),
        (FILES,),
        seed=9,
    ),
    _mutant(
        "slow start taken for a failed one",
        "a start that was begun and is not ready yet is declared on the old node too",
        (
            Edit(
                "podmigration.lifecycle:_starting",
                "if answer is StartAnswer.FAILED:",
                "if answer in (StartAnswer.FAILED, StartAnswer.STARTING):",
            ),
        ),
        (ONCE,),
        seed=13,
    ),
    _mutant(
        "any node takes a start",
        "a reservation does not ask for the file that its pod is started from",
        (
            Edit(
                "migration.domain.reservation_round:reservation_for",
                "**({offered_label(pod.workload): pod.digest} if stored.job.starts_replacement else {}),",
                "",
            ),
        ),
        (FILES,),
        seed=13,
    ),
    _mutant(
        "budget read without the moves in flight",
        "what was admitted before, and has not ended its pod, does not count against a disruption budget",
        (
            Edit(
                "migration.domain.arbitration_round:_active",
                "budgets=budgets.get(stored.name, ()),",
                "budgets=(),",
            ),
        ),
        (DISRUPTION,),
        seed=35,
    ),
    _mutant(
        "ended pod counts as healthy still",
        "until a budget is counted again, a pod that a move has ended makes room for the next one",
        (
            Edit(
                "migration.domain.arbitration_round:snapshot_of",
                "each.without(ledger.state.taken, now_s)",
                "each.budget",
            ),
        ),
        (DISRUPTION,),
        seed=11,
    ),
    _mutant(
        "pod takes a second reservation",
        "a pod that has a reservation is bound to the next one that it matches, and what that keeps is lost",
        (
            Edit(
                "migration.domain.reservation_round:_with_owners",
                "None if pod.uid in bound else nominate(pod, offered)",
                "nominate(pod, offered)",
            ),
        ),
        (ROOMS,),
        seed=9,
    ),
    _mutant(
        "order of reservations ignored",
        "of several reservations that a pod matches it takes the one that is used most, whatever their order",
        (
            Edit(
                "reservations.lifecycle:_preference",
                'float(reservation.order) if reservation.order > 0 else float("inf")',
                "0.0 * reservation.order",
            ),
        ),
        (ROOMS,),
        seed=21,
    ),
)
