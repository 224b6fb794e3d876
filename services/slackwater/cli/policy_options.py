"""The options of `slackwater simulate` for policies. `--help` imports this module, so it imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.prometheus_options import seconds_of
from slackwater.model.errors import InvalidInput

if TYPE_CHECKING:
    from slackwater.simulation.settings import PolicyTerms

BatchOption = Annotated[
    str | None,
    typer.Option(
        "--batch", metavar="fill|30%", help="policies: batch fills the offers (default), or a share of series"
    ),
]
BatchPodsOption = Annotated[
    int | None, typer.Option("--batch-pods", help="policies: batch pods per node that fill the offers; default 4")
]
OvercommitOption = Annotated[
    float | None,
    typer.Option("--overcommit", help="policies, profiles: divides a node's capacity on a trace; default 1"),
]
ControlOption = Annotated[
    str | None, typer.Option("--control", metavar="5s", help="policies: interval of guard cycles; default 5s")
]
ReturnOption = Annotated[
    str | None,
    typer.Option("--return", metavar="1h|never", help="policies: time until an evicted pod returns; default 1h"),
]
CarryOverOption = Annotated[
    str | None,
    typer.Option("--carry-over", metavar="0%", help="policies: share of prevented work done later; default 0%"),
]
CapacityOption = Annotated[
    str | None,
    typer.Option("--capacity", metavar="75%", help="quotas: the pool, as a share of the largest demand; default 75%"),
]
_OF_TRACES = ("batch", "batch_pods", "overcommit")


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The options as given; None if absent."""

    batch: str | None
    batch_pods: int | None
    overcommit: float | None
    control: str | None
    comes_back: str | None
    carry_over: str | None

    def refuse_all(self) -> None:
        """Raises InvalidInput if any is given, because they apply to policies only."""
        for field in fields(self):
            if getattr(self, field.name) is not None:
                name = _option(field.name)
                raise InvalidInput(
                    f"--{name}: applies to policies (NodeQOS …), and these files hold strategies; leave it out",
                    field=name,
                )

    def refuse_those_of_traces(self) -> None:
        """Raises InvalidInput for an option that lays out a trace."""
        for each in _OF_TRACES:
            if getattr(self, each) is not None:
                name = _option(each)
                raise InvalidInput(
                    f"--{name}: applies to --trace; recorded history has its own batch pods; leave it out", field=name
                )

    def terms(self, seed: int) -> PolicyTerms:
        """The terms of the replay. Raises InvalidInput that names the option and the allowed values."""
        from slackwater.simulation.adapters.trace_scenes import BatchLayout, share_of
        from slackwater.simulation.domain.guarded_run import GuardTerms
        from slackwater.simulation.settings import PolicyTerms

        usual, layout = GuardTerms(), BatchLayout()
        control = usual.every_ms if self.control is None else 1000 * seconds_of(self.control, "control")
        comes_back = usual.return_ms
        if self.comes_back is not None:
            comes_back = None if self.comes_back == "never" else 1000 * _after(self.comes_back)
        return PolicyTerms(
            GuardTerms(control, comes_back, 0 if self.carry_over is None else _percent(self.carry_over)),
            BatchLayout(
                share_of(self.batch or "fill"),
                layout.pods if self.batch_pods is None else self.batch_pods,
                layout.overcommit if self.overcommit is None else self.overcommit,
                seed,
            ),
        )


def _option(field: str) -> str:
    return "return" if field == "comes_back" else field.replace("_", "-")


def _after(text: str) -> int:
    try:
        return seconds_of(text, "return")
    except InvalidInput:
        raise InvalidInput(
            f"--return: {text!r} is not allowed; allowed: never, or a duration such as 10m, 1h, 1d", field="return"
        ) from None


def _percent(text: str) -> int:
    match = re.fullmatch(r"(\d{1,3})%", text)
    if match is None or int(match[1]) > 100:
        raise InvalidInput(
            f"--carry-over: {text!r} is not allowed; allowed: whole percents, 0% to 100%", field="carry-over"
        )
    return int(match[1])
