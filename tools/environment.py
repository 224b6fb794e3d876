"""Creates or repairs `.venv` from the lock files. Standard library only, because it runs before any installation.

    python3 tools/environment.py          what `slackwater` needs to run
    python3 tools/environment.py --dev    and the tools for tests and checks

A stamp inside `.venv` contains a digest of all inputs of the environment. It is written last and removed first, so an
interrupted build has no stamp and is repeated; the check of a current one takes a few milliseconds. A lock on the
checkout's directory serializes concurrent runs of `make`.

Packages are installed by uv, which pip installs into `.venv` first: from an empty cache all locks take 11 s on two
cores, with pip alone 63 s. Where uv cannot be had, pip installs the same locks.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST_PYTHON = (3, 11)
UV, UV_LOCK = VENV / "bin" / "uv", ROOT / "requirements-uv.lock"
UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
    "trusted-host": "UV_INSECURE_HOST",
    "no-index": "UV_NO_INDEX",
}
"""By pip's name: uv's variable."""
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off")


class SetupFailed(Exception):
    """A step failed; the message names the step and what to do."""


class Step:
    """Prints one line per step: its name, its progress (on a terminal) and its duration."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begin = time.monotonic()
        self._terminal = sys.stderr.isatty()
        self.progress("…")

    def progress(self, text: str) -> None:
        if self._terminal:
            sys.stderr.write(f"\r\x1b[K  {self._title} {text}")
            sys.stderr.flush()

    def done(self) -> None:
        start_of_line = "\r\x1b[K" if self._terminal else ""
        sys.stderr.write(f"{start_of_line}  {self._title}: {time.monotonic() - self._begin:.1f} s\n")
        sys.stderr.flush()


def base_python() -> str:
    """The interpreter below any virtual environment: `make` may run in a shell where `.venv` itself is activated."""
    base = getattr(sys, "_base_executable", None)
    return str(Path(base or sys.executable).resolve())


def digest_of(*files: Path) -> str:
    """Digest of the inputs of an environment: files, interpreter, and location (scripts contain absolute paths)."""
    state = hashlib.sha256(f"{sys.version}\n{base_python()}\n{ROOT}\n".encode())
    for file in files:
        state.update(file.read_bytes())
    return state.hexdigest()


def clean_environment() -> dict[str, str]:
    """The caller's environment without the variables that would direct pip or Python away from `.venv`."""
    stray = {"PYTHONHOME", "PYTHONPATH", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV"}
    kept = {name: value for name, value in os.environ.items() if name not in stray}
    return kept | {"PIP_USER": "0"}


def run(step: Step, command: list[str], environment: dict[str, str] | None = None) -> None:
    """Run one command without output. Raises SetupFailed with the end of its output."""
    tail: deque[str] = deque(maxlen=25)
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment or clean_environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        for line in child.stdout or ():
            tail.append(line)
            step.progress(line.strip()[:60])
    if child.returncode:
        raise SetupFailed(f"{' '.join(command)} failed with {child.returncode}:\n{''.join(tail)}")


def install(lock: Path) -> None:
    """Install all packages of a lock file.

    Wheels only: an installation must not need a compiler, and a missing wheel must fail at once. A lock is complete, so
    that nothing has to be resolved.
    """
    step = Step(f"packages ({lock.name})")
    arguments = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(lock)]
    try:
        if not UV.exists():
            run(step, [str(PYTHON), *PIP, "--require-hashes", "--only-binary", ":all:", "-r", str(UV_LOCK)])
        run(step, [str(UV), "pip", "install", "--python", str(PYTHON), *arguments], uv_environment())
    except SetupFailed:
        step.progress("by pip, as uv cannot be used here")
        run(step, [str(PYTHON), *PIP, *arguments])
    step.done()


def uv_environment() -> dict[str, str]:
    """The environment of uv, which does not read pip's settings: where pip finds packages, uv finds them."""
    command = [str(PYTHON), "-m", "pip", "config", "list"]
    listing = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    settings = dict(line.split("=", 1) for line in listing.stdout.splitlines() if "=" in line)
    environment = clean_environment()
    for name, variable in UV_VARIABLES.items():
        values = [value.strip("'") for key, value in settings.items() if key.rpartition(".")[2] == name]
        if values:
            environment.setdefault(variable, values[-1])
    return environment


def make_base(stamp: Path, digest: str) -> None:
    """Create a new environment and install the product."""
    if sys.version_info < OLDEST_PYTHON:
        raise SetupFailed(f"Python {sys.version.split()[0]} is too old; run: make PYTHON=python3.11")
    stamp.unlink(missing_ok=True)
    shutil.rmtree(VENV, ignore_errors=True)
    step = Step("virtual environment")
    try:
        run(step, [base_python(), "-m", "venv", str(VENV)])
    except SetupFailed as failure:
        raise SetupFailed(f"{failure}\nOn Debian the package python3-venv is needed.") from None
    step.done()
    install(ROOT / "requirements.lock")
    step = Step("slackwater itself")
    run(step, [str(PYTHON), *PIP, "--no-deps", "--no-build-isolation", "--no-index", "-e", "."])
    for paths in VENV.glob("lib/python*/site-packages/_slackwater.pth"):
        # relative, because under LC_ALL=C Python 3.11 does not start with a path in it that is not ASCII
        absolute = paths.read_text(encoding="utf-8").splitlines()
        paths.write_text("".join(f"{os.path.relpath(path, paths.parent)}\n" for path in absolute), encoding="utf-8")
    step.done()
    stamp.write_text(digest)


def is_current(stamp: Path, digest: str) -> bool:
    return stamp.is_file() and stamp.read_text() == digest


def ensure(dev: bool) -> None:
    """Update `.venv`; does nothing if its stamps are current."""
    base = digest_of(ROOT / "pyproject.toml", ROOT / "requirements.lock", UV_LOCK)
    base_stamp, dev_stamp = VENV / ".made-from", VENV / ".made-from-dev"
    if not is_current(base_stamp, base):
        make_base(base_stamp, base)
    tools = digest_of(ROOT / "requirements-dev.lock")
    if dev and not is_current(dev_stamp, tools):
        dev_stamp.unlink(missing_ok=True)
        install(ROOT / "requirements-dev.lock")
        dev_stamp.write_text(tools)


def main() -> int:
    parser = argparse.ArgumentParser(description="Make or heal .venv from the locks.")
    parser.add_argument("--dev", action="store_true", help="also the tools for tests and checks")
    arguments = parser.parse_args()
    guard = os.open(ROOT, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)
        ensure(arguments.dev)
    except SetupFailed as failure:
        sys.stderr.write(f"\nset-up failed: {failure}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nset-up interrupted; the next make begins it again\n")
        return 130
    finally:
        os.close(guard)
    return 0


if __name__ == "__main__":
    sys.exit(main())
