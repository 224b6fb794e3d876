"""The projection of the stream DECISIONS: what is counted as budgeted, kept per subject, and unbounded."""

from __future__ import annotations

from typing import Any

import pytest
from tests.bench.decisions_soak import OF_AGENTS, Budget, Journal, Message, budgeted_rate, project, report, settled_at

BUDGET = Budget(burst=131_072, bytes_per_hour=3_500)
AGENTS = OF_AGENTS.bytes_in(720 * 3600)


def messages(*, seconds: int = 3600, nodes: int = 2) -> list[Message]:
    """A throttle record of 1,000 bytes per node every 10 minutes, and a prediction of 2,000 every minute."""
    found = []
    for at in range(0, seconds, 60):
        for node in range(nodes):
            found.append(Message(at, "prediction", f"p.{node}", 2000))
            if at % 600 == 0:
                found.append(Message(at, "throttle compact", f"t.{node}.{at}", 1000))
    return found


def test_budgeted_records_grow_and_what_is_kept_per_subject_does_not() -> None:
    found = project(messages(), nodes=2, since=0, until=3600, budget=BUDGET, keep=30)
    assert found.budgeted == pytest.approx(AGENTS + 131_072 + 720 * 6000)
    assert found.kept_per_subject == 30 * 2000
    assert found.unbounded == 0


def test_only_records_after_the_burst_make_the_rate() -> None:
    late = [Message(3000, "throttle", "t", 7000), Message(100, "throttle", "u", 9_999_999)]
    found = project(late, nodes=1, since=1800, until=3600, budget=BUDGET, keep=30)
    assert found.budgeted == pytest.approx(AGENTS + 131_072 + 720 * 14_000)


def test_records_of_disconnected_agents_have_a_target_of_their_own() -> None:
    journal = Journal(began=0.0, sizes=[(at, at * 10) for at in range(0, 3601, 60)])
    journal.messages = [Message(at, "throttle disconnected", f"t{at}", 6000) for at in range(0, 3600, 360)]
    figure: dict[str, Any] = report(journal, 1, BUDGET)
    assert [target.is_met(1.0) for target in figure["targets"]] == [True, False, True]


def test_a_run_too_short_for_a_refill_is_projected_with_the_budget() -> None:
    calm = [Message(100, "throttle", "t", 3000)]
    found = project(calm, nodes=1, since=1800, until=3600, budget=BUDGET, keep=30)
    assert found.budgeted == pytest.approx(AGENTS + 131_072 + 720 * 3_500)
    assert budgeted_rate(calm, nodes=1, since=1800, until=3600) == 0


def test_evictions_are_counted_apart_from_the_budget() -> None:
    found = project([Message(10, "evict", "e", 5000)], nodes=1, since=0, until=3600, budget=BUDGET, keep=30)
    assert (found.budgeted, found.unbounded) == (
        pytest.approx(AGENTS + 131_072 + 720 * 3_500),
        pytest.approx(720 * 5000),
    )


def test_the_burst_is_used_up_when_most_of_it_was_published() -> None:
    assert settled_at(messages(), nodes=2, burst=2000) == 600
    assert settled_at(messages(), nodes=2, burst=100_000) is None


@pytest.mark.parametrize(("size", "is_met"), [(500, True), (5000, False)])
def test_the_figure_is_missed_where_records_exceed_the_budget(size: int, is_met: bool) -> None:
    journal = Journal(began=0.0, sizes=[(at, at * 10) for at in range(0, 3601, 60)])
    journal.messages = [Message(at, "throttle", f"t{at}", size) for at in range(0, 3600, 600)]
    figure: dict[str, Any] = report(journal, 1, BUDGET)
    assert [target.is_met(1.0) for target in figure["targets"]] == [is_met, True, is_met or size < 4000]
    assert figure["bytes_per_node_hour"] == pytest.approx(36_000, rel=0.01)
