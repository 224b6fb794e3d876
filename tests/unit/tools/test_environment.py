from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ASK = "import tools.environment as e; print(e.base_python()); print(e.digest_of())"


def asked_by(python: str) -> list[str]:
    done = subprocess.run([python, "-c", ASK], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_an_activated_environment_is_looked_through_and_so_never_rebuilds_itself(tmp_path: Path) -> None:
    base = asked_by(sys.executable)[0]
    venv.create(tmp_path / "venv", symlinks=True)

    inside = asked_by(str(tmp_path / "venv" / "bin" / "python"))

    assert inside == asked_by(base)
    assert not inside[0].startswith(str(tmp_path))
