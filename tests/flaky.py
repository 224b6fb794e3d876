"""`make flaky`: runs `make test` again and again, quiet or beside other work, and prints what came of each run.

    make flaky ARGS="7"             7 runs
    make flaky ARGS="10 --busy 2"   10 runs, each beside two busy loops
    make flaky ARGS="3 --disk"      3 runs, each beside a process that writes to the disk

Ends with 1 if a run failed. Nothing is repeated until it passes: each failure is printed with its tests.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_BUSY: Final = "while True: pass"
_DISK: Final = """
import os, sys
block = os.urandom(1 << 20)
with open(sys.argv[1], "wb") as file:
    while True:
        file.seek(0)
        for _ in range(256):
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
"""
_OF_MAKE: Final = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS")
_FAILED: Final = re.compile(r"^failed: (.*)$", re.MULTILINE)
_COUNTS: Final = re.compile(r"^\d+ passed, .*$", re.MULTILINE)


@contextmanager
def beside(busy: int, *, disk: bool) -> Iterator[None]:
    """Runs so many busy loops, and a disk writer, during the block."""
    with tempfile.TemporaryDirectory(dir=ROOT / ".slackwater" if (ROOT / ".slackwater").exists() else ROOT) as folder:
        commands = [[sys.executable, "-c", _BUSY] for _ in range(busy)]
        commands += [[sys.executable, "-c", _DISK, f"{folder}/block"]] if disk else []
        processes = [subprocess.Popen(command) for command in commands]
        try:
            yield
        finally:
            for process in processes:
                process.kill()
                process.wait()


def run(log: Path) -> tuple[int, float, str]:
    """Run `make test`. Returns its exit status, its seconds, and its counts and failures."""
    began = time.monotonic()
    # without what make hands on to a make that it starts: the ARGS of `make flaky` are not those of `make test`
    own = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    with log.open("w") as file:
        done = subprocess.run(["make", "test"], cwd=ROOT, env=own, stdout=file, stderr=subprocess.STDOUT, check=False)
    output = log.read_text()
    counts = _COUNTS.findall(output)
    return done.returncode, time.monotonic() - began, "; ".join([*counts[-1:], *dict.fromkeys(_FAILED.findall(output))])


def main() -> int:
    parser = argparse.ArgumentParser(prog="make flaky", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", type=int, nargs="?", default=20, help="how many (default 20)")
    parser.add_argument("--busy", type=int, default=0, help="busy loops beside it")
    parser.add_argument("--disk", action="store_true", help="a disk writer beside it")
    options = parser.parse_args()
    load = (
        " and ".join([f"{options.busy} busy loops"] * bool(options.busy) + ["a disk writer"] * options.disk) or "quiet"
    )
    folder, failed = Path(tempfile.mkdtemp(prefix="slackwater-flaky-")), 0
    print(f"outputs in {folder}\nrun  exit  seconds  load 1 min  beside", flush=True)  # noqa: T201
    for number in range(1, options.runs + 1):
        with beside(options.busy, disk=options.disk):
            status, seconds, text = run(folder / f"run-{number}.log")
        failed += status != 0
        print(f"{number:3}  {status:4}  {seconds:7.0f}  {os.getloadavg()[0]:10.2f}  {load}: {text}", flush=True)  # noqa: T201
    print(f"{failed} of {options.runs} runs failed")  # noqa: T201
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
