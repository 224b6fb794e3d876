"""The demo's witness and the agent count the machine's time alike: what the host took is not there to be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.bench.policies.watch import machine_cpu

from slackwater.agent.adapters.linux.meters import busy_ns


def test_time_that_the_host_took_is_not_left_to_give(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("cpu  100 20 30 5000 600 7 8 900 40 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    ticks = os.sysconf("SC_CLK_TCK")
    busy, stolen = machine_cpu(tmp_path)
    assert (busy, stolen) == (pytest.approx(1065 / ticks), 900 / ticks)
    assert busy == pytest.approx((busy_ns((tmp_path / "stat").read_bytes()) or 0) / 1e9)
