"""`make bench`, `make faults` and `make rehearse`, ended at some moment by any signal, leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.guardian import CGROUPS, cgroups_of, descendants, instances

ROOT = Path(__file__).resolve().parents[2]
MARK = "SLACKWATER_TEST_LEFTOVERS"
RUNNERS = {
    "bench": ("-m", "tests.bench", "--only", "reaction", "--surges", "1", "--out", "{}/bench.json"),
    "faults": ("-m", "tests.faults", "kill-nats-server"),
    "rehearse": ("-m", "deploy.backup.rehearse", "--nodes", "2", "--seconds", "60"),
}
BATCH = (
    "import os, subprocess, sys, time\n"
    "here = os.environ['TMPDIR']\n"
    "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    "daemon = 'import os, time; os.setsid(); os.fork() and os._exit(0); time.sleep(600)'\n"
    "subprocess.run([sys.executable, '-c', daemon])\n"
    "open(here + '/ready', 'w').close()\n"
    "time.sleep(600)\n"
)
"""A command with a child in a session of its own, and a daemon."""
DEAF = BATCH.replace("['sleep', '600']", "['sh', '-c', 'trap \"\" TERM INT; sleep 600; sleep 600']")
"""The same with a child that ends at SIGKILL only."""
GUARDED = "import sys; from tests.support.guardian import guarded; sys.exit(guarded('test', sys.argv[1:]))"


def start(temporary: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """As make does, with a folder for temporary files and a mark in the environment."""
    mark = {"TMPDIR": str(temporary), MARK: str(temporary)}
    return subprocess.Popen([sys.executable, *arguments], cwd=ROOT, env=os.environ | mark, stdout=subprocess.DEVNULL)


def processes(temporary: Path) -> list[int]:
    """Processes that say they belong to this run: by a variable, an argument or where they stand."""
    found, name = [], os.fsencode(temporary)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            if name in said or (entry / "cwd").readlink().is_relative_to(temporary):
                found.append(int(entry.name))
    return found


def until(holds: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)  # a look reads every process of the machine


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    tmp_path.chmod(0o755)
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o755)
    yield folder
    for pid in processes(folder):
        os.kill(pid, signal.SIGKILL)


def assert_nothing_is_left(temporary: Path, ids: set[str]) -> None:
    until(lambda: not any(temporary.glob("slackwater-*")), f"left: {list(temporary.glob('*'))}")
    until(lambda: not processes(temporary), "a process is left", 5)
    assert not cgroups_of(ids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_daemons_and_deaf_processes_end_with_the_first_process(temporary: Path, number: signal.Signals) -> None:
    process = start(temporary, "-c", GUARDED, sys.executable, "-c", DEAF)
    until(lambda: list(temporary.glob("*/ready")), "the command never ran")
    assert len(processes(temporary)) >= 5
    process.send_signal(number)
    status = process.wait(30)
    assert status == (-number if number is signal.SIGKILL else 128 + number)
    assert_nothing_is_left(temporary, set())


@pytest.mark.parametrize("depth", [0, 1], ids=["guardian", "command"])
def test_a_killed_guardian_or_command_leaves_nothing(temporary: Path, depth: int) -> None:
    process = start(temporary, "-c", GUARDED, sys.executable, "-c", BATCH)
    until(lambda: list(temporary.glob("*/ready")), "the command never ran")
    os.kill(descendants(process.pid)[depth], signal.SIGKILL)
    assert process.wait(30) == 128 + signal.SIGKILL
    assert_nothing_is_left(temporary, set())


def test_there_is_no_moment_too_early_to_be_killed(temporary: Path) -> None:
    for delay in (0.0, 0.02, 0.05, 0.1, 0.15, 0.25):
        process = start(temporary, "-c", GUARDED, sys.executable, "-c", BATCH)
        time.sleep(delay)
        process.kill()
        process.wait()
    assert_nothing_is_left(temporary, set())


def test_the_exit_status_and_what_was_printed_are_the_commands(temporary: Path) -> None:
    code = "import os; print(os.environ['TMPDIR']); raise SystemExit(3)"
    command = [sys.executable, "-c", GUARDED, sys.executable, "-c", code]
    environment = os.environ | {"TMPDIR": str(temporary)}
    done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 3
    folder = Path(done.stdout.strip())
    assert folder.parent == temporary
    assert folder.name.startswith("slackwater-test-")
    assert not folder.exists()


@pytest.mark.faults
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("runner", "number"),
    [("bench", signal.SIGINT), ("faults", signal.SIGTERM), ("rehearse", signal.SIGKILL)],
    ids=str,
)
def test_an_ended_runner_leaves_nothing(temporary: Path, runner: str, number: signal.Signals) -> None:
    """Every runner once and every signal once: what follows a signal is the guardian's, whose tests are above."""
    process = start(temporary, *(part.format(temporary) for part in RUNNERS[runner]))

    def at_work() -> bool:
        assert process.poll() is None, "the runner ended by itself"
        names = set[str]()
        for pid in descendants(process.pid):
            with suppress(OSError):  # it may end between the listing and the reading
                names.add((Path("/proc") / str(pid) / "comm").read_text().strip())
        return {"postgres", "nats-server"} <= names and bool(instances(temporary))

    until(at_work, "its servers never came up", 150)  # they take five seconds, and over sixty at a load of twenty
    ids = instances(temporary)
    assert len(processes(temporary)) > 3
    process.send_signal(number)
    process.wait(60)
    assert_nothing_is_left(temporary, ids)


CGROUP = (
    "import os, pathlib, subprocess, sys\n"
    "here, tree, name = pathlib.Path(os.environ['TMPDIR']), pathlib.Path(sys.argv[1]), sys.argv[2]\n"
    "(here / 'state').mkdir()\n"
    "(here / 'state' / 'instance-id').write_text(name)\n"
    "pod = tree / f'slackwater-{name}' / 'batch' / 'pod'\n"
    "pod.mkdir(parents=True)\n"
    "(pod / 'cgroup.procs').write_text(str(subprocess.Popen(['sleep', '600']).pid))\n"
) + BATCH


def test_cgroups_of_a_killed_run_are_removed_and_those_of_others_are_not(temporary: Path) -> None:
    trees = [tree for tree in (CGROUPS / "cpu", CGROUPS) if os.access(tree / "cgroup.procs", os.W_OK)]
    if not trees:
        pytest.skip("cgroups cannot be written: run the tests as root, or below a delegated tree")
    name, other = f"test{os.getpid()}", trees[0] / f"slackwater-other{os.getpid()}"
    other.mkdir()
    try:
        process = start(temporary, "-c", GUARDED, sys.executable, "-c", CGROUP, str(trees[0]), name)
        until(lambda: list(temporary.glob("*/ready")), "the command never ran")
        assert cgroups_of({name})
        process.kill()
        process.wait()
        assert_nothing_is_left(temporary, {name})
        assert other.is_dir()
    finally:
        other.rmdir()
