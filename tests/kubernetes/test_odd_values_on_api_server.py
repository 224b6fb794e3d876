"""Odd values of the chart: the API server takes every object that they make."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.kubernetes.build import this_build
from tests.kubernetes.helm import IS_THERE, WHY_NOT, rendered
from tests.kubernetes.odd_values import TAKEN

from slackwater.resources.names import API_VERSION

pytestmark = pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)


@pytest.mark.parametrize("title", TAKEN)
def test_the_api_server_takes_what_odd_values_make(admin_kubeconfig: Path, title: str) -> None:
    program = this_build().folder / "kubectl"
    if not program.is_file():
        pytest.skip("no kubectl: `make kubernetes` builds one")

    def kubectl(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        command = [str(program), f"--kubeconfig={admin_kubeconfig}", *arguments]
        return subprocess.run(command, input=given, capture_output=True, text=True, check=False)

    for namespace in ("lending", "123"):
        kubectl("create", "namespace", namespace)
    release, values = TAKEN[title]
    (objects,) = rendered(values, namespace="lending", name=release)
    own = [one for one in objects if one["kind"] != "CustomResourceDefinition" and one["apiVersion"] != API_VERSION]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": own})
    done = kubectl("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", given=text)
    assert (done.returncode, done.stderr) == (0, "")
