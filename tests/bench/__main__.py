"""`make bench`: the figures of the product, measured here and now, written to .slackwater/bench.json.

    python -m tests.bench [--surges 12] [--idle-seconds 20] [--pods 110] [--out FILE] [--only reaction,idle,agent]

Nothing here passes or fails: figures depend on the machine, so its load and a calibration loop are written beside.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench import idle, reaction

from slackwater.demo.service import seconds_per_round

ROOT = Path(__file__).resolve().parents[2]
ALL = ("reaction", "idle", "agent")


def machine() -> dict[str, Any]:
    """What the figures stand on. `calibration_rounds_per_second` compares machines and shows a throttled one."""
    return {
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": list(os.getloadavg()),
        "calibration_rounds_per_second": round(1 / seconds_per_round()),
    }


def agent(pods: int, seconds: int) -> dict[str, Any]:
    """The agent's own bench, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.agent.footprint", "--pods", str(pods), "--seconds", str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description="Figures, not tests.")
    parser.add_argument("--surges", type=int, default=12, help="each takes up to half a minute")
    parser.add_argument("--idle-seconds", type=int, default=20)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("--out", type=Path, default=ROOT / ".slackwater" / "bench.json")
    parser.add_argument("--only", default=",".join(ALL), help=f"some of {','.join(ALL)}")
    given = parser.parse_args()
    wanted = given.only.split(",")
    found: dict[str, Any] = {"measured_at": datetime.now(UTC).isoformat(), "before": machine()}
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slackwater-bench-") as folder:
        if "idle" in wanted:
            found["stack_idle"] = idle.measure(Path(folder) / "idle", given.idle_seconds)
        if "reaction" in wanted:
            found["reaction"] = reaction.measure(Path(folder) / "reaction", given.surges)
    if "agent" in wanted:
        found["agent"] = agent(given.pods, given.idle_seconds)
    found["after"] = machine()
    found["seconds"] = round(time.monotonic() - began, 1)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1)
    given.out.write_text(text + "\n")
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
