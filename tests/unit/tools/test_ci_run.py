"""`.ci/run`: builds the API server before the tests where Go is there, and never fails because of it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKE = """#!/bin/sh
echo "$@" >> calls
case "$*" in
  *kubernetes) {kubernetes} ;;
  test-all) exit 7 ;;
esac
"""


def run(folder: Path, kubernetes: str, *, go: bool, **variables: str) -> tuple[int, str, list[str]]:
    """Exit status, output, and what make was asked for; its target `kubernetes` does as given, `test-all` ends
    with 7."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    programs = folder / "programs"
    programs.mkdir()
    stubs = {"make": MAKE.format(kubernetes=kubernetes)} | ({"go": "#!/bin/sh\n"} if go else {})
    for name, text in stubs.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    for name in ("bash", "dirname", "timeout", "tail", "sh", "sleep", "env"):
        (programs / name).symlink_to(shutil.which(name) or "/nowhere")
    environment = {"PATH": str(programs), "HOME": str(folder), **variables}
    done = subprocess.run(
        [str(folder / ".ci" / "run")], env=environment, capture_output=True, text=True, check=False, cwd=os.sep
    )
    return done.returncode, done.stdout, (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize(
    ("kubernetes", "go", "variables", "state", "calls"),
    [
        ("echo steps; echo /cache/1.37", True, {}, "/cache/1.37", 2),
        ("echo why >&2; exit 2", True, {}, "not built: why", 2),
        ("sleep 30", True, {"SLACKWATER_CI_KUBERNETES_SECONDS": "0.2"}, "not built: no output in 0.2 s", 2),
        ("exit 0", True, {"SLACKWATER_CI_KUBERNETES_SECONDS": "0"}, "not built: SLACKWATER", 1),
        ("exit 0", False, {}, "not built: go is not on PATH", 1),
    ],
)
def test_it_says_in_one_line_what_became_of_the_api_server_and_runs_the_tests(
    kubernetes: str, go: bool, variables: dict[str, str], state: str, calls: int, tmp_path: Path
) -> None:
    status, output, asked = run(tmp_path, kubernetes, go=go, **variables)
    assert output.startswith(f"API server for tests/kubernetes: {state}")
    assert output.count("\n") == 1
    assert asked == ["--no-print-directory kubernetes", "test-all"][2 - calls :]
    assert status == 7, "the status is that of the tests"
