"""The totals of a tier without a cgroup of its own: those of its worst pod in every interval, and sums of bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.agent.adapters.linux.tier_totals import TierTotals
from slackwater.agent.domain.samples import PsiTotals

POD = st.tuples(st.none() | st.integers(0, 1000), st.none() | st.integers(0, 1000))
SAMPLES = st.lists(st.dictionaries(st.sampled_from("abc"), POD, max_size=3), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(SAMPLES)
def test_pressure_rises_by_the_largest_rise_and_bytes_by_all(
    drawn: list[dict[str, tuple[int | None, int | None]]],
) -> None:
    totals, waited, read = TierTotals(), 0, 0
    before = dict[str, tuple[int | None, int | None]]()
    for sample in drawn:
        known = [(before[pod], sample[pod]) for pod in sample if pod in before]
        rises = [max(0, now[0] - old[0]) for old, now in known if old[0] is not None and now[0] is not None]
        waited += max(rises, default=0)
        read += sum(max(0, now[1] - old[1]) for old, now in known if old[1] is not None and now[1] is not None)
        shown = {pod: (PsiTotals(cpu, cpu, None), refaulted) for pod, (cpu, refaulted) in sample.items()}
        foreseen = totals.after(shown)
        totals.add(shown)
        assert totals.psi == foreseen
        assert (totals.psi.cpu_some_us or 0, totals.psi.memory_some_us or 0) == (waited, waited)
        assert totals.psi.io_some_us is None
        assert (totals.refault_bytes or 0) == read
        before = sample


def test_what_no_pod_tells_is_unknown_and_not_zero() -> None:
    totals = TierTotals()
    totals.add({"a": (PsiTotals(), None)})
    totals.add({"a": (PsiTotals(), None)})
    assert (totals.psi, totals.refault_bytes) == (PsiTotals(), None)
