"""An installed model may fail in any way: other nodes are predicted, and it lends nothing where it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
from policy_scene import Replica, model, policy
from prediction_memory import MemoryPredictionStore
from pydantic import Field
from tests.support.clock import FakeClock
from tests.support.resources import MemoryResourceStore
from tests.support.windows import window

from slackwater.events.decision_recorded import DecisionRecorded
from slackwater.events.peak_predicted import PeakPredicted
from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.model.quantities import Resources
from slackwater.peaks.borg_default import BorgDefault
from slackwater.peaks.plugin_sandbox import SandboxedModel
from slackwater.peaks.port import Floats, Members, Peaks, Rows
from slackwater.peaks.tables import State
from slackwater.prediction.adapters.predictors import registry
from slackwater.prediction.adapters.predictors.catalogue import Catalogue
from slackwater.prediction.adapters.predictors.registry import GROUP, make_model, model_of
from slackwater.prediction.adapters.predictors.settings import PredictorSettings
from slackwater.prediction.domain.policy import ModelChoice, PoolPolicies, PoolPolicy
from slackwater.prediction.domain.state import Keeping
from slackwater.prediction.ports import DescribedNode
from slackwater.prediction.usecases.fold_windows import fold_windows
from slackwater.prediction.usecases.partition_store import LivingState, PredictionPolicy
from slackwater.prediction.usecases.publish_predictions import publish_predictions

MEMBERS = Members(np.array([0, 0, 2]), np.arange(3), np.arange(3), np.array([100.0, 200.0, 40.0]), np.zeros(3))
LIMITS = [300.0, 0.0, 40.0]
Answer = Callable[[], Any]


class Odd(BorgDefault):
    """It answers what it is told to, and raises in the functions that are named."""

    name = "odd"

    def __init__(self, answer: Answer | None = None, *raising: str) -> None:
        super().__init__(2.0)
        self.answer, self.raising = answer, set(raising)

    def _may(self, what: str) -> None:
        if what in self.raising:
            raise ZeroDivisionError(f"no {what} today")

    def fold(self, at_seconds: float, members: Members, usage: Floats) -> None:
        self._may("fold")

    def peaks(self, at_seconds: float, members: Members) -> Peaks:
        self._may("peaks")
        found: Peaks = self.answer() if self.answer else super().peaks(at_seconds, members)
        return found

    def state(self) -> State:
        self._may("state")
        return {"it": np.arange(3)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._may("restore")

    def forget(self, machines: Rows, series: Rows, workloads: Rows) -> None:
        self._may("forget")


class OddSettings(PredictorSettings):
    """Somebody's."""

    how: str = Field("", description="what is wrong")


class Needy(PredictorSettings):
    """One without a default."""

    share: float


def make(settings: OddSettings, resource: str) -> Any:
    if settings.how == "none":
        return None
    if settings.how == "nan":
        return Odd(lambda: Peaks(np.full(1, np.nan), {"all": np.full(1, np.nan)}, np.zeros(1)))
    if settings.how == "raises":
        raise KeyError("no licence")
    return Odd(None, settings.how)


odd = (OddSettings, make)
needy = (Needy, make)
strange = ("settings", "factory")


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [EntryPoint(name, f"{__name__}:{name}", GROUP) for name in ("odd", "needy", "strange")]
    monkeypatch.setattr(registry, "entry_points", lambda group: entries)


@pytest.mark.parametrize("how", ["fold", "peaks", "state", "forget", "nan"])
async def test_other_nodes_are_predicted_for_and_the_record_says_why_nothing_is_lent(how: str) -> None:
    theirs = ModelChoice("odd", {"how": how})
    policies = PoolPolicies(PoolPolicy(), {"gold": PoolPolicy("gold", cpu=theirs, memory=theirs)})
    store, clock = MemoryPredictionStore(), FakeClock()
    living = LivingState(store, PredictionPolicy(model_of, policies, Keeping(pod_seconds=60.0)))
    living.nodes["ours"] = DescribedNode(Resources(8000, 2**33), "gold")
    for number in range(1, 8):
        pods = {"p" if number < 4 else "q": 500}  # p is forgotten
        batch = [window(node, number, pods) for node in ("ours", "other")]
        await fold_windows(living, [(2 * number + place, event) for place, event in enumerate(batch)])
        await clock.advance(60)
        await publish_predictions(living, clock)
    told = [event.data for event in store.outbox if isinstance(event.data, PeakPredicted)]
    assert {one.node for one in told} == {"ours", "other"}
    assert await living.snapshot()
    again = LivingState(store, living.policy)
    assert (await again.restore()).refused == (), "its pool begins anew, and no other"
    records = [event.data.record for event in store.outbox if isinstance(event.data, DecisionRecorded)]
    said = [one.value for record in records if record.node == "ours" for one in record.inputs if "problem" in one.name]
    if how in ("fold", "peaks", "nan"):
        assert [one.tier_peaks["prod"] for one in told if one.node == "ours"][-1].cpu_milli >= 500
        assert said
    assert all("gold/pods/cpu: odd" in living.models.problems for _ in said)
    assert not any("default/" in place for place in living.models.problems)


def peaks(*values: object) -> Answer:
    column = np.array(values)
    return lambda: Peaks(column, {"all": column}, np.zeros(3))


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (peaks(150.0, 0.0, 20.0), [150.0, 0.0, 20.0]),
        (peaks(np.nan, 0.0, 20.0), [300.0, 0.0, 20.0]),
        (peaks(-1.0, 5.0, np.inf), LIMITS),
        (peaks(1e300, 0.0, 20.0), [300.0, 0.0, 20.0]),
        (peaks(150.0, 0.0), LIMITS),
        (peaks(None, None, None), LIMITS),
        (peaks("a", "b", "c"), LIMITS),
        (lambda: None, LIMITS),
        (lambda: 7, LIMITS),
        (lambda: Peaks(None, None, None), LIMITS),  # type: ignore[arg-type]
        (lambda: Peaks(np.array([150.0, 0.0, 20.0]), {}, np.full(3, np.nan)), [150.0, 0.0, 20.0]),
        (lambda: Peaks(np.array([150.0, 0.0, 20.0]), {"a": np.full(3, np.nan)}, np.zeros(3)), [150.0, 0.0, 20.0]),
    ],
)
def test_a_peak_is_an_amount_up_to_the_limits_and_its_terms_add_up_to_it(answer: Answer, found: list[float]) -> None:
    told = SandboxedModel(lambda: Odd(answer)).peaks(60.0, MEMBERS)
    assert told.peak.tolist() == found
    added = np.minimum(sum(told.terms.values(), np.zeros(3)), LIMITS)
    assert added.tolist() == found, "a decision is made again from its terms"
    assert ((told.cold_share >= 0) & (told.cold_share <= 1)).all()


def test_what_raises_lends_nothing_until_it_works_again_and_says_why() -> None:
    inner = Odd(None, "fold")
    held = SandboxedModel(lambda: inner)
    held.fold(60.0, MEMBERS, np.ones(3))
    assert held.peaks(60.0, MEMBERS).peak.tolist() == LIMITS
    assert held.problem == "fold raised ZeroDivisionError: no fold today"
    again = SandboxedModel(Odd)
    again.restore(held.state())
    assert again.peaks(60.0, MEMBERS).peak.tolist() == LIMITS, "equal states answer equally"
    inner.raising = {"peaks"}
    held.fold(120.0, MEMBERS, np.ones(3))
    assert held.peaks(120.0, MEMBERS).peak.tolist() == LIMITS
    assert held.problem == "peaks raised ZeroDivisionError: no peaks today"
    inner.raising = set()
    assert held.peaks(180.0, MEMBERS).peak.tolist() == [150.0, 0.0, 20.0]
    assert held.problem == ""


def test_a_state_that_cannot_be_saved_or_loaded_restarts_the_model() -> None:
    held = SandboxedModel(lambda: Odd(None, "state"))
    with pytest.raises(InvalidInput, match="could not be stored"):
        SandboxedModel(Odd).restore(held.state())
    with pytest.raises(InvalidInput, match="restore raised ZeroDivisionError") as error:
        SandboxedModel(lambda: Odd(None, "restore")).restore(SandboxedModel(Odd).state())
    assert error.value.code == "model_state_unusable"


def test_one_that_cannot_forget_begins_anew_for_its_numbers_are_given_to_others() -> None:
    made: list[Odd] = []

    def anew() -> Odd:
        made.append(Odd(None, "forget"))
        return made[-1]

    held = SandboxedModel(anew)
    held.forget(np.array([0]), np.array([0]), np.array([0]))
    assert len(made) == 2
    assert "forget raised" in held.problem


@pytest.mark.parametrize("how", ["raises", "none"])
async def test_a_model_that_cannot_be_made_is_refused_by_name_and_stops_nothing(how: str) -> None:
    with pytest.raises(InvalidInput, match="model odd: could not be made for cpu with these settings: "):
        make_model("odd", {"how": how}, "cpu")
    here = await Replica(MemoryResourceStore()).open()
    with pytest.raises(InvalidInput, match=r"spec\.models\.cpu: model odd: could not be made"):
        await here.change.put(policy("gold", models={"cpu": model("odd", how=how)}))


def test_one_that_cannot_be_described_hides_no_other() -> None:
    assert {"odd", "histogram"} <= {one.name for one in Catalogue().all()}
    with pytest.raises(Misconfigured, match="model needy: cannot be made from the defaults"):
        Catalogue().one("needy")
    with pytest.raises(Misconfigured, match="must name a pair"):
        Catalogue().one("strange")
