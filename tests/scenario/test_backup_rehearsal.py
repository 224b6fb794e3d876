"""The rehearsal that an operator runs: everything gone, restored on new servers, at work again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHORT_WINDOWS = {"SLACKWATER_INGESTION_WINDOW_SECONDS": "2", "SLACKWATER_PREDICTION_HISTOGRAM_UPDATE_SECONDS": "2"}


@pytest.mark.timeout(300)
def test_the_rehearsal_ends_with_equal_hashes_and_says_the_recovery_time() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deploy.backup.rehearse", "--nodes", "3", "--seconds", "1"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | SHORT_WINDOWS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    before, after = re.findall(r"state hash \w+ +([0-9a-f]{64})", done.stdout)
    assert before == after
    assert re.search(r"equal; recovery time \d+\.\d s \(3 nodes\)", done.stdout)
