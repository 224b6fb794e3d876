"""The agent and `slackwater exec` on this machine's real cgroups."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from agent_machine import Machine, soon, until

from slackwater.agent.domain.controls.cpu_limit import CPU_LIMIT
from slackwater.agent.node_agent import AgentService
from slackwater.events.eviction_completed import EvictionCompleted, EvictionOutcome
from slackwater.events.intent_observed import IntentObserved
from slackwater.events.node_described import NodeDescribed
from slackwater.events.usage_reported import UsageReported

pytestmark = pytest.mark.root


def limit_of(service: AgentService, uid: str) -> str:
    return service.driver.read(service.driver.knob(CPU_LIMIT, uid))


async def test_a_command_runs_inside_its_cgroups_and_its_exit_code_comes_back(machine: Machine, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    process = machine.execute("sh", "-c", f"cat /proc/self/cgroup > {seen}; exit 7")
    await until(lambda: process.poll() is not None)
    assert process.returncode == 7
    places = [line for line in seen.read_text().splitlines() if f"slackwater-{machine.instance}/batch/" in line]
    assert len(places) >= len(machine.hierarchy.trees())


@pytest.mark.parametrize("flags", [(), ("--cpu-limit", "700m")], ids=["unlimited", "limited"])
async def test_a_throttle_is_written_observed_and_given_back_exactly(machine: Machine, flags: tuple[str, ...]) -> None:
    job = machine.execute("sleep", "1000", flags=flags)
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        original = limit_of(service, pod.uid)
        in_force = service.driver.parse(service.driver.knob(CPU_LIMIT, pod.uid), original)
        assert in_force == (700 if flags else None)
        throttle = {"pod_uid": pod.uid, "cpu_limit_milli": 250, "decision_id": "d1"}
        declared = await machine.declare(throttles=[throttle])
        observed = (await until(lambda: machine.published(IntentObserved)))[0]
        assert observed.causedby == declared.id
        assert [(item.pod_uid, item.cpu_limit_milli, item.error) for item in observed.data.limits] == [
            (pod.uid, 250, None)
        ]
        assert limit_of(service, pod.uid) != original
        reports = await until(
            lambda: [event for event in machine.published(UsageReported) if event.data.pods and event.data.sequence > 1]
        )
        assert machine.published(NodeDescribed)[0].data.facts.cgroup_version == machine.hierarchy.version
        assert reports[0].data.pods[0].pod.uid == pod.uid
        await machine.declare(throttles=[])
        await until(lambda: limit_of(service, pod.uid) == original)
        await machine.declare(throttles=[throttle])
        await until(lambda: limit_of(service, pod.uid) != original)
        driver = service.driver
        limit = Path(driver.knob(CPU_LIMIT, pod.uid).path)
    report = service.restore_report
    assert report is not None
    assert report.exact
    assert report.files
    assert limit.read_text().strip() == original
    assert json.loads((machine.state_dir / "agent/restore-report.json").read_text())["exact"] is True
    assert job.poll() is None, "the job outlives the agent"
    job.terminate()
    await until(lambda: job.poll() is not None)
    assert machine.directories() == []


async def test_a_job_that_ignores_sigterm_is_killed_after_its_grace(machine: Machine, tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    job = machine.execute("sh", "-c", f"trap '' TERM; touch {deaf}; while :; do sleep 0.05; done")
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        await until(deaf.exists)  # an eviction begins within milliseconds
        item = {
            "id": "e1", "pod_uid": pod.uid, "grace_seconds": 0.3, "deadline": soon(), "reason": "test",
            "decision_id": "d1",
        }  # fmt: skip
        await machine.declare(evictions=[item])
        done = await until(lambda: machine.published(EvictionCompleted))
        assert [event.data.outcome for event in done] == [EvictionOutcome.KILLED]
        await until(lambda: job.poll() is not None)
        assert job.returncode == 128 + signal.SIGKILL
        await machine.declare(evictions=[item])
        await until(lambda: len(machine.published(IntentObserved)) >= 2)
    assert len(machine.published(EvictionCompleted)) == 1


async def test_a_polite_job_ends_within_its_grace_and_says_why(
    machine: Machine, capfd: pytest.CaptureFixture[str]
) -> None:
    job = machine.execute("sleep", "1000")
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        item = {
            "id": "e2", "pod_uid": pod.uid, "grace_seconds": 20, "deadline": soon(), "reason": "test",
            "decision_id": "d1",
        }  # fmt: skip
        await machine.declare(evictions=[item])
        done = await until(lambda: machine.published(EvictionCompleted))
        assert [event.data.outcome for event in done] == [EvictionOutcome.TERMINATED]
        await until(lambda: job.poll() is not None)
    said = capfd.readouterr().err
    assert "evicted for ensurance" in said
    assert "why: slackwater why decision/d1" in said


async def test_signals_reach_the_command_and_everything_it_left_is_killed(machine: Machine, tmp_path: Path) -> None:
    stray = tmp_path / "stray"
    job = machine.execute(
        "sh", "-c", f"trap 'exit 9' TERM; setsid sleep 1000 & echo $! > {stray}; while :; do sleep 0.05; done"
    )
    await until(lambda: stray.exists() and stray.read_text().strip())
    pid = int(stray.read_text())
    job.terminate()
    await until(lambda: job.poll() is not None)
    assert job.returncode == 9
    assert not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"


async def test_what_a_killed_supervisor_leaves_is_removed_by_the_agent(machine: Machine) -> None:
    job = machine.execute("sh", "-c", "setsid sleep 1000 & sleep 1000")
    async with machine.agent() as service:
        await machine.pod(service)
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
        await until(lambda: not service.driver.pods())
    assert machine.directories() == []


async def test_a_foreign_writer_is_reported_and_left_alone(machine: Machine) -> None:
    machine.execute("sleep", "1000")
    async with machine.agent() as service:
        [pod] = await machine.pod(service)
        knob = service.driver.knob(CPU_LIMIT, pod.uid)
        await machine.declare(throttles=[{"pod_uid": pod.uid, "cpu_limit_milli": 250, "decision_id": "d1"}])
        await until(lambda: service.driver.parse(knob, limit_of(service, pod.uid)) == 250)
        foreign = service.driver.render(knob, 777)
        service.driver.write(knob, foreign)
        reported = await until(
            lambda: [event for event in machine.published(IntentObserved) if event.data.foreign_writers]
        )
        assert reported[0].data.foreign_writers == (knob.path,)
        assert limit_of(service, pod.uid) == foreign
        await machine.declare(throttles=[{"pod_uid": pod.uid, "cpu_limit_milli": 200, "decision_id": "d2"}])
        await until(lambda: machine.published(IntentObserved)[-1].data.generation == 2)
        assert limit_of(service, pod.uid) == foreign
    for job in machine.commands:
        job.terminate()
        await until(lambda job=job: job.poll() is not None)


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv on PATH (Debian: apt-get install util-linux)")
def test_without_writable_cgroups_it_says_so_in_one_line_and_runs_the_command(machine: Machine) -> None:
    line = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-m", "slackwater.cli"]
    # pytest's folders are closed to other users, so that user gets one of its own.
    with tempfile.TemporaryDirectory() as theirs:
        Path(theirs).chmod(0o777)
        environment = {**machine.environment, "SLACKWATER_STATE_DIR": theirs}
        probe = subprocess.run([*line, "--version"], env=environment, cwd="/", capture_output=True, check=False)
        if probe.returncode != 0:
            pytest.skip("this checkout cannot be read by another user: clone it into a folder that others may read")
        done = subprocess.run(
            [*line, "exec", "--tier", "batch", "--workload", "job", "--", "sh", "-c", "echo ran; exit 5"],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout) == (5, "ran\n")
    assert done.stderr.count("\n") == 1
    assert "runs unmanaged" in done.stderr
    assert "run as root" in done.stderr


@pytest.mark.parametrize(("command", "status"), [("/nonexistent", 127), ("/etc/passwd", 126), ("kill-me", 143)])
async def test_exit_codes_are_those_of_a_shell(machine: Machine, command: str, status: int) -> None:
    words = ("sh", "-c", "kill -TERM $$") if command == "kill-me" else (command,)
    process = machine.execute(*words)
    await until(lambda: process.poll() is not None)
    assert process.returncode == status


async def test_a_wrong_flag_is_named_and_nothing_is_started(machine: Machine) -> None:
    process = machine.execute("true", flags=("--priority", "9500"))
    await until(lambda: process.poll() is not None)
    assert process.returncode == 2
    assert not (machine.state_dir / "agent").exists()


async def test_the_agent_process_samples_while_there_is_no_broker_and_leaves_nothing(machine: Machine) -> None:
    line = [sys.executable, "-m", "slackwater.agent", "--nats", "nats://127.0.0.1:1", "--state-dir"]
    agent = subprocess.Popen([*line, str(machine.state_dir)], env=machine.environment)  # noqa: ASYNC220 - forking is quick
    machine.commands.append(agent)
    await until(machine.directories)
    agent.terminate()
    await until(lambda: agent.poll() is not None)
    assert agent.returncode == 0
    assert json.loads((machine.state_dir / "agent/restore-report.json").read_text()) == {"exact": True, "files": []}
