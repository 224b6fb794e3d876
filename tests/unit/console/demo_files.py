"""A state directory of the demo in which a run is kept: lend was shown, cpu was left out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.support.clock import EPOCH

from slackwater.demo.director import summary_path
from slackwater.demo.machine.other_work import OtherWork
from slackwater.demo.machine.request_bench import MeasuredStretch
from slackwater.demo.picture import picture
from slackwater.demo.report import Turn, report
from slackwater.demo.scenes.lend import LEND, LendTurn
from slackwater.demo.summary import RunSummary, SceneSummary
from slackwater.runtime.state import DEMO_PICTURES

TURNS = [
    Turn(
        variant,
        LendTurn(
            room_milli=placed * 250,
            placed=placed,
            placed_milli=placed * 250,
            core_seconds=placed * 0.8,
            stretch=MeasuredStretch(3.5, 200, 0, 12.5, 0.01, 0.5, placed * 0.2),
        ),
        OtherWork(),
    )
    for variant, placed in (("requests", 0), ("offers", 4))
]
REPORT = report(LEND, TURNS, 2)


def write_summary(demo: Path, **scenes: SceneSummary) -> None:
    found = RunSummary(
        driver="linux",
        machine={"node": "edge-7", "cpus": 2, "kernel": "6.1", "cgroups": "v2", "load_average": [0, 0, 0]},
        started_at=EPOCH - timedelta(minutes=3),
        seconds=60,
        scenes=scenes,
    )
    summary_path(demo).write_text(found.model_dump_json())


def demo_folder(parent: Path) -> Path:
    """Writes the run; a picture of an earlier run is left, and a file that is no picture."""
    demo = parent / "demo"
    (demo / DEMO_PICTURES).mkdir(parents=True)
    (demo / DEMO_PICTURES / "lend.svg").write_text(picture(LEND, TURNS))
    (demo / DEMO_PICTURES / "cpu.svg").write_text("<svg>old</svg>")
    (demo / "secret.svg").write_text("<svg>not a picture</svg>")
    write_summary(demo, lend=REPORT, cpu=SceneSummary(plan="a surge", left_out="it needs 40 s, and 3 s are left"))
    return demo
