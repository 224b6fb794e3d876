"""Wrong versions of what the services decide and count."""

from __future__ import annotations

from tests.world.mutants.mutant import Mutant
from tests.world.mutants.plant import Edit

COUNT, GENERATIONS = "windows count once", "generations are used once"
REFUSED = "refused evictions relieve nothing"
SERVICES = (
    Mutant(
        "gap counted twice",
        "a missing report counts as two in its window",
        (
            Edit(
                "ingestion.domain.windowing_columnar:close_windows_columnar",
                "gaps=gaps[node, number],",
                "gaps=2 * gaps[node, number],",
            ),
        ),
        (COUNT,),
        faults=("agent cut off",),
        seed=16,
    ),
    Mutant(
        "watermark of windows not stored",
        "a closed window is built and published again",
        (Edit("ingestion.usecases.close_windows:CloseWindows._close_some", "await ledger.save(moved)", "pass"),),
        (COUNT,),
        seed=2,
    ),
    Mutant(
        "clock taken from the report",
        "ingestion dates a report by its agent's clock",
        (
            Edit(
                "ingestion.usecases.accept_reports:AcceptReports._judge",
                "last_report_at=now,",
                "last_report_at=report.sampled_at,",
            ),
        ),
        ("receipt decides liveness",),
        seed=2,
    ),
    Mutant(
        "replay accepted",
        "a report that was counted before is counted again",
        (
            Edit(
                "ingestion.domain.sequences:_same_agent",
                "return Repeated()",
                "return Fresh(track, 0)",
            ),
        ),
        (COUNT, "no defect is logged"),
        faults=("consumer forgets|consumer lost",),
        seed=158,
    ),
    Mutant(
        "offers not numbered",
        "an offer is published under the generation of the one before",
        (
            Edit(
                "colocation.usecases.recompute_offer:recompute",
                "generation=state.generation + 1",
                "generation=max(1, state.generation)",
            ),
        ),
        (GENERATIONS,),
        seed=2,
    ),
    Mutant(
        "decision without a record",
        "ensurance declares a limit and publishes no record of its decision",
        (Edit("ensurance.usecases.guard_node:GuardNode._commit", "await unit.publish(decision)", "pass"),),
        ("actions have records", "changes are recorded"),
        seed=3,
    ),
    Mutant(
        "generation without its document",
        "a decision is stored, and its document is not published",
        (
            Edit(
                "ensurance.usecases.guard_node:GuardNode._commit",
                "if answer.after.generation != answer.before.generation:",
                "if answer.evicted:",
            ),
        ),
        (GENERATIONS, "changes are recorded"),
        seed=3,
    ),
    Mutant(
        "old offer grows",
        "the offer of old usage rises with its age",
        (
            Edit(
                "offers.degradation:remaining_share",
                "(strategy.decay_to_seconds - snapshot.age_seconds) / span",
                "0.5 + snapshot.age_seconds / strategy.decay_to_seconds / 2",
            ),
        ),
        ("old offers shrink", "offers follow the formulas"),
        faults=("agent away",),
        seed=51,
    ),
    Mutant(
        "hour of a node not counted",
        "the planner evicts although the node has had its evictions of this hour",
        (
            Edit(
                "waterline.execution.executor:_budget",
                "limits.evictions_per_hour - len(state.begun_at)",
                "limits.evictions_per_hour",
            ),
        ),
        ("evictions are within autonomy",),
        evicts=True,
        seed=8,
    ),
    Mutant(
        "refused eviction still credited",
        "an eviction that a budget refused counts as relief to come, so that no other pod is taken",
        (
            Edit(
                "ensurance.usecases.on_evicted:OnEvicted._after",
                "if gone or not own or seen.writer != ENSURANCE.name:",
                "if True:",
            ),
        ),
        (REFUSED,),
        evicts=True,
        seed="evictions-refused-by-a-budget.json",
    ),
    Mutant(
        "autonomy not counted",
        "a pool does not count its evictions, and never steps back",
        (Edit("ensurance.domain.pools:PoolStanding.after", "for _ in evicted:", "for _ in ():"),),
        ("evictions are within autonomy",),
        evicts=True,
        seed="storm-under-a-narrow-autonomy.json",
    ),
)
