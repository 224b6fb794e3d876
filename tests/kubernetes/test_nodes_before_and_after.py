"""`kubectl get node NAME -o yaml` before an install, while the node lends and is cordoned, and after uninstall.

The lines that differ are the figures of docs/how-to/kubernetes-adapter.md.
"""

from __future__ import annotations

import difflib
import subprocess
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.kubernetes.build import this_build
from tests.kubernetes.drivers import RealDriver
from tests.kubernetes.own_keys import Form, History, Step
from tests.kubernetes.test_own_keys import Stage

from slackwater.apiserver.records import CORDON_TAINT
from slackwater.kubernetes.usecases.uninstall import withdraw_all

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "kubernetes-adapter.md"
TITLES = {
    Form.REGISTERED: "registered by a kubelet",
    Form.REPORTED: "has reported since",
    Form.RIVALLED: "another manager owns one of the amounts",
    Form.WITHOUT_LABELS: "without labels",
}


@pytest.mark.parametrize("form", TITLES)
async def test_a_node_is_after_uninstall_what_it_was_before_install(
    real: RealDriver, admin_kubeconfig: Path, form: Form
) -> None:
    program = this_build().folder / "kubectl"
    if not program.is_file():
        pytest.skip("no kubectl: `make kubernetes` builds one")

    def shown() -> list[str]:
        command = [str(program), f"--kubeconfig={admin_kubeconfig}", "get", "node", stage.name, "-o", "yaml"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if "resourceVersion:" not in line]

    async with AsyncExitStack() as stack:
        stage = Stage(real, History(form, False, ()))
        stack.push_async_callback(stage.stop)
        await stage.prepare()
        before = shown()
        await stage.start()
        for step in (Step.OFFER, Step.CORDON):
            await stage.take(step)
            await stage.compared(step)
        while CORDON_TAINT not in "".join(lending := shown()):
            await stage.passes(0.1)
        await stage.stop()
        await withdraw_all(real.api, wait_seconds=0)
        after = shown()
    gone, new = differences(before, lending)
    assert gone == [], "nothing of others leaves or changes"
    assert after == before
    assert f"| {TITLES[form]} | {len(before)} | {len(new)} | 0 |" in PAGE.read_text(encoding="utf-8")


def differences(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lines that are gone, and those that are new."""
    lines = list(difflib.ndiff(before, after))
    gone, new = ([line[2:] for line in lines if line.startswith(mark)] for mark in ("- ", "+ "))
    return gone, new
