"""A wheel of this tree, in a fresh environment, runs everything from an empty folder. Minutes: it installs the lock."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest

from slackwater.runtime.state import INSTANCE_ID

ROOT = Path(__file__).resolve().parents[3]
READY_SECONDS, STOP_SECONDS = 300.0, 60.0
EXPECTED = re.compile(
    r"up in [0-9.]+ s|  .* +[0-9.]+ s|simulated driver .*|Ctrl-C stops everything|restored \d+ files? exactly"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`slackwater` of an environment that holds the lock and the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder), str(ROOT))
    subprocess.run([sys.executable, *pip, *build], check=True, cwd=folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = str(folder / "venv" / "bin" / "python")
    lock = ("install", "--only-binary", ":all:", "--require-hashes", "--requirement", str(ROOT / "requirements.lock"))
    subprocess.run([python, *pip, *lock], check=True, cwd=folder)
    [wheel] = folder.glob("slackwater-*.whl")
    subprocess.run([python, *pip, "install", "--no-deps", "--no-index", str(wheel)], check=True, cwd=folder)
    return folder / "venv" / "bin" / "slackwater"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "home"
    for lock in tmp_path.rglob("lock"):  # a run that a failure has left
        with suppress(ValueError, OSError):
            os.kill(int(lock.read_text()), signal.SIGKILL)


@pytest.mark.timeout(1800)  # pip alone takes minutes on a busy machine
def test_up_starts_in_an_empty_folder_and_stops_in_order(program: Path, home: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", os.defpath), "LANG": "C"}
    environment["SLACKWATER_LOG_LEVEL"] = "error"  # that a busy machine makes a server wait is a warning, and true
    with (tmp_path / "stderr").open("w+") as errors:
        command = [str(program), "up", "--port", "0"]
        running = subprocess.Popen(
            command, cwd=empty, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert running.stdout is not None
        url = running.stdout.readline().removeprefix("console ").strip()
        assert url.startswith("http://127.0.0.1:"), Path(errors.name).read_text()
        checks = passed_checks(url)
        running.send_signal(signal.SIGINT)
        assert running.wait(STOP_SECONDS) == 0
        running.stdout.close()
    assert all(part in checks for part in ("postgres", "nats", "ingestion", "ensurance", "console", "agent samples"))
    said = Path(errors.name).read_text().splitlines()
    assert [line for line in said if not EXPECTED.fullmatch(line)] == []
    assert list(empty.iterdir()) == []
    [instance] = home.rglob(INSTANCE_ID)
    assert instance.parent == home / ".local/state/slackwater"
    assert not list(Path("/sys/fs/cgroup").glob(f"**/slackwater-{instance.read_text().strip()}"))


def passed_checks(url: str) -> str:
    """The lines of /readyz once it passes."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with suppress(httpx2.HTTPError):
            answer = httpx2.get(f"{url}/readyz", params={"verbose": ""}, timeout=READY_SECONDS)
            if answer.is_success:
                return answer.text
        assert time.monotonic() < deadline, f"{url}/readyz does not pass"
        time.sleep(0.2)
