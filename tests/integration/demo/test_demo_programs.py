"""The demo's programs as processes: they serve, count, die with their parent and end in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slackwater.demo.machine.page_cache import drop_cache, write_file
from slackwater.demo.machine.workloads import program
from slackwater.demo.programs.load import read_samples
from slackwater.demo.programs.reader import reads_of

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT / 'services'}:{ROOT / 'libs'}"}


def until(condition: Callable[[], bool], what: str, patience_seconds: float = 60.0) -> None:
    deadline = time.monotonic() + patience_seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def start(name: str, **arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(program(name, **arguments), env=ENVIRONMENT, start_new_session=True)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    announced = tmp_path / "service.json"
    process = start("service", workers=2, rounds=500, announce=announced)
    until(announced.exists, "the service never announced itself")
    yield process, json.loads(announced.read_text())["port"]
    process.kill()
    process.wait()


def test_the_service_answers_the_same_work_with_the_same_result(service: tuple[subprocess.Popen[bytes], int]) -> None:
    _, port = service
    answers = set()
    for _ in range(5):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/quote", timeout=60) as answer:
            answers.add(answer.read())
    assert len(answers) == 1
    instance, digest = answers.pop().split()
    assert (instance, len(digest)) == (b"-", 64)


def test_sigterm_ends_the_service_and_its_workers(service: tuple[subprocess.Popen[bytes], int]) -> None:
    process, _ = service
    workers = children_of(process.pid)
    assert len(workers) == 2
    process.terminate()
    assert process.wait(60) == 0
    until(lambda: all(gone(pid) for pid in workers), "a worker survived")


def test_the_generator_measures_every_request(service: tuple[subprocess.Popen[bytes], int], tmp_path: Path) -> None:
    _, port = service
    out = tmp_path / "latencies"
    schedule = [("rest", 0.3, 20), ("surge", 0.5, 100)]
    assert start("load", port=port, schedule=schedule, start=0, patience=5, out=out).wait(60) == 0
    samples = read_samples(out)
    assert {sample.stretch for sample in samples} == {"rest", "surge"}
    assert all(sample.ok and sample.latency > 0 for sample in samples)


def cpu_ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11])


def test_batch_uses_cpu_and_ends_on_sigint() -> None:
    process = start("batch", processes=1)
    until(lambda: bool(children_of(process.pid)), "no burner was started")
    [burner] = children_of(process.pid)
    until(lambda: cpu_ticks(burner) > 2, "the burner used no CPU")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    until(lambda: gone(burner), "the burner survived")


def test_a_growing_program_holds_what_it_was_asked_for_and_ends_with_its_checkpoint(tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out.json", tmp_path / "checkpoint.json"
    process = start("growth", start=1, end=3, per_second=100, out=out, checkpoint=checkpoint)
    until(lambda: out.exists() and json.loads(out.read_text())["done"], "it never grew to its end")
    assert json.loads(out.read_text())["mib"] == 3
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM
    assert json.loads(checkpoint.read_text()) == {"mib": 3}


@pytest.mark.parametrize("in_order", [False, True])
def test_a_reader_reads_its_file_again_and_again_and_notes_it(tmp_path: Path, *, in_order: bool) -> None:
    file, out = tmp_path / "data", tmp_path / "out"
    write_file(file, 4)
    drop_cache(file)
    process = start("reader", file=file, out=out, per_second=100, in_order=in_order)
    try:
        until(lambda: len(reads_of(out)) > 4, "it never began again")
    finally:
        process.kill()
        process.wait()
    assert [read.at for read in reads_of(out)] == sorted(read.at for read in reads_of(out))
    out.write_text("1.0 5\n2.0 7\n3.0 ")
    assert [read.seconds for read in reads_of(out)] == [7.0], "not the whole file, and no line without its end"


def test_a_tethered_tree_dies_with_a_killed_parent(tmp_path: Path) -> None:
    announced = tmp_path / "service.json"
    inner = program("service", workers=1, rounds=10, announce=announced)
    command = [sys.executable, "-m", "slackwater.demo.programs.die_with_parent", *inner]
    code = f"import subprocess; subprocess.Popen({command!r}).wait()"
    parent = subprocess.Popen([sys.executable, "-c", code], env=ENVIRONMENT)
    until(announced.exists, "the service never announced itself")
    pid = json.loads(announced.read_text())["pid"]
    workers = children_of(pid)
    parent.kill()
    parent.wait()
    until(lambda: gone(pid) and all(gone(worker) for worker in workers), "the tree outlived its parent")
