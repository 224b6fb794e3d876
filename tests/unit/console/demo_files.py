"""A state directory of the demo in which a run is kept: lend was shown, cpu was skipped."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from slackwater.demo.director import summary_path
from slackwater.demo.scenes.lend import LEND
from slackwater.demo.scenes.lend_result import OFFERS, REQUESTS, LendScene, LendTurn
from slackwater.demo.scenes.result import SceneSummary
from slackwater.demo.summary import RunSummary
from slackwater.runtime.state import DEMO_PICTURES
from slackwater.testing.clock import EPOCH

RESULT = LendScene(
    cpu_milli=2000,
    waiting=8,
    pod_milli=250,
    turns=tuple(
        LendTurn(
            variant=variant,
            seconds=3.5,
            requests=200,
            errors=0,
            p99_ms=12.5,
            prod_cpu=0.5,
            free_milli=placed * 250,
            placed=placed,
            placed_milli=placed * 250,
            batch_core_seconds=placed * 0.8,
        )
        for variant, placed in ((REQUESTS, 0), (OFFERS, 4))
    ),
)


def write_summary(demo: Path, **scenes: SceneSummary) -> None:
    found = RunSummary(
        driver="linux",
        driver_note="",
        machine={"node": "edge-7", "cpus": 2, "kernel": "6.1", "cgroups": "v2", "load_average": [0, 0, 0]},
        started_at=EPOCH - timedelta(minutes=3),
        seconds=60,
        workload={},
        waterline=None,
        phases={},
        scenes=scenes,
    )
    summary_path(demo).write_text(found.model_dump_json())


def demo_folder(parent: Path) -> Path:
    """Writes the run; a picture of an earlier run is left, and a file that is no picture."""
    demo = parent / "demo"
    (demo / DEMO_PICTURES).mkdir(parents=True)
    lend = SceneSummary(plan=LEND.plan, **LEND.judged(RESULT).model_dump())
    assert LEND.picture is not None
    (demo / DEMO_PICTURES / "lend.svg").write_text(LEND.picture(RESULT))
    (demo / DEMO_PICTURES / "cpu.svg").write_text("<svg>old</svg>")
    (demo / "secret.svg").write_text("<svg>not a picture</svg>")
    skipped = SceneSummary(plan="a surge", skipped="it needs 40 s, and 3 s are left")
    write_summary(demo, lend=lend, cpu=skipped)
    return demo
