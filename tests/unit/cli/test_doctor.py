from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from slackwater.agent.adapters.journal_file import claims_in
from slackwater.agent.adapters.linux.hierarchy import Hierarchy
from slackwater.bus.connect.access import NatsAccess
from slackwater.cli import doctor
from slackwater.cli.findings import Finding, Instance, Level, MachineSnapshot, examine, exit_needed
from slackwater.cli.machine_snapshot import access_trouble, cgroups_of_ours, has_idle, snapshot
from slackwater.cli.main import app
from slackwater.model.limited_resource import Limited, LimitedResource
from slackwater.runtime.settings import HttpSettings
from slackwater.runtime.state import StateDir

WELL = MachineSnapshot(
    python=(3, 11, 7),
    system="Linux",
    kernel="6.1.0",
    cgroup_version="v2",
    why_unwritable=None,
    psi_global=True,
    psi_per_cgroup=True,
    cpu_idle=True,
    lowers_oom_scores=True,
    cpus=4,
    not_placed="",
    now=datetime(2026, 6, 1, tzinfo=UTC),
    clock_source="tsc",
    postgres="/opt/postgres",
    nats="/opt/nats-server",
    servers_trouble={},
    state_dir="/srv/state",
    instance_id="0a1b2c3d",
    disk=LimitedResource(Limited.DISK, "state", 2**40 - 50 * 2**30, 2**40),
    state_writable=True,
    instance=Instance(),
)


def finding(seen: MachineSnapshot, check: str) -> Finding:
    [one] = [found for found in examine(seen) if found.check == check]
    return one


def test_a_machine_that_is_well_has_only_lines_that_say_so() -> None:
    found = examine(WELL)
    assert {one.level for one in found} == {Level.OK}
    assert not exit_needed(found)
    assert all(not one.advice for one in found)


@pytest.mark.parametrize(
    ("check", "level", "change"),
    [
        ("python", Level.FAIL, {"python": (3, 10, 12)}),
        ("kernel", Level.WARN, {"system": "Darwin"}),
        ("cgroups", Level.WARN, {"why_unwritable": "/sys/fs/cgroup is not writable for uid 1000; run as root"}),
        ("pressure", Level.WARN, {"psi_global": False}),
        ("pressure", Level.WARN, {"psi_per_cgroup": False}),
        ("idle batch", Level.WARN, {"cpu_idle": False}),
        ("oom scores", Level.WARN, {"lowers_oom_scores": False}),
        ("cpusets", Level.WARN, {"not_placed": "the kubelet's static CPU manager is in force"}),
        ("cpus", Level.WARN, {"cpus": 1}),
        ("cpus", Level.WARN, {"cpus": None}),
        ("clock", Level.FAIL, {"now": datetime(1970, 1, 1, tzinfo=UTC)}),
        ("clock", Level.WARN, {"clock_source": "jiffies"}),
        ("postgres", Level.FAIL, {"postgres": None, "servers_trouble": {"postgres": "the wheel is missing"}}),
        ("nats", Level.FAIL, {"nats": None}),
        ("state", Level.FAIL, {"state_writable": False}),
        ("disk", Level.WARN, {"disk": LimitedResource(Limited.DISK, "state", 2**40 - 2**30, 2**40)}),
        ("disk", Level.FAIL, {"disk": LimitedResource(Limited.DISK, "state", 2**40 - 2**20, 2**40)}),
        ("instance", Level.FAIL, {"instance": Instance(trouble="lock belongs to another user")}),
        ("instance", Level.FAIL, {"instance": Instance(7, "http://127.0.0.1:1", trouble="no answer")}),
        (
            "instance",
            Level.FAIL,
            {"instance": Instance(7, "http://127.0.0.1:1", failed_checks=["nats-process failed"])},
        ),
        (
            "instance",
            Level.WARN,
            {"instance": Instance(7, "http://127.0.0.1:1", warnings=["stream-DECISIONS warning: nearly full"])},
        ),
        ("blocked", Level.WARN, {"instance": Instance(7, "http://127.0.0.1:1", blocked={"edge-7": "sends poison"})}),
        ("quarantine", Level.FAIL, {"instance": Instance(7, "http://127.0.0.1:1", quarantined={"1f": "vm failed"})}),
        ("shards", Level.WARN, {"instance": Instance(7, "http://127.0.0.1:1", shards={"ingestion": {"a": 7, "": 1}})}),
        ("leftovers", Level.FAIL, {"cgroups": {"0a1b2c3d": ["/sys/fs/cgroup/slackwater-0a1b2c3d"]}}),
        (
            "leftovers",
            Level.WARN,
            {"cgroups": {"0a1b2c3d": ["/x/slackwater-0a1b2c3d"]}, "live_cgroups": frozenset({"0a1b2c3d"})},
        ),
        ("leftovers", Level.WARN, {"cgroups": {"ffffffff": ["/sys/fs/cgroup/slackwater-ffffffff"]}}),
        ("journal", Level.FAIL, {"journal_claims": 3}),
    ],
)
def test_each_trouble_is_one_line_with_what_to_do(check: str, level: Level, change: dict[str, Any]) -> None:
    seen = replace(WELL, **change)
    one = finding(seen, check)
    assert one.level is level
    assert one.seen
    assert one.advice
    assert exit_needed(examine(seen)) is (level is Level.FAIL)
    assert [other for other in examine(seen) if other.level is not Level.OK] == [one]


def test_the_cgroups_and_the_journal_of_a_running_instance_are_nothing_to_worry_about() -> None:
    running = replace(
        WELL,
        instance=Instance(
            7, "http://127.0.0.1:8460", rpc_address="127.0.0.1:8461", shards={"ingestion": {"a": 4, "b": 4}}
        ),
        cgroups={"0a1b2c3d": ["/sys/fs/cgroup/slackwater-0a1b2c3d"]},
        journal_claims=3,
    )
    assert not [one for one in examine(running) if one.level is not Level.OK]
    assert "gRPC on 127.0.0.1:8461" in finding(running, "instance").seen
    assert finding(running, "shards").seen == "every partition has an owner; replicas: ingestion 2"


def test_cgroups_of_another_instance_are_listed_and_said_to_be_perhaps_not_ours() -> None:
    one = finding(
        replace(WELL, cgroups={"ffffffff": ["/a/slackwater-ffffffff", "/b/slackwater-ffffffff"]}), "leftovers"
    )
    assert "/a/slackwater-ffffffff, /b/slackwater-ffffffff" in one.seen
    assert "another checkout" in one.advice


def test_cgroups_are_found_in_every_tree_by_the_id_of_their_instance(tmp_path: Path) -> None:
    for name in ("cpu/slackwater-aa/batch", "memory/slackwater-aa", "cpu/other"):
        (tmp_path / name).mkdir(parents=True)
    hierarchy = Hierarchy(tmp_path / "cpu", tmp_path / "cpu", tmp_path / "memory", None)
    assert cgroups_of_ours(hierarchy) == {
        "aa": [str(tmp_path / "cpu/slackwater-aa"), str(tmp_path / "memory/slackwater-aa")]
    }


def test_the_journal_is_counted_without_touching_it(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    assert claims_in(journal) == 0
    text = '{"op":"claim","path":"/x","field":"cpu.max","text":"max"}\n{"op":"cla'  # torn, as a crash leaves it
    journal.write_text(text)
    assert claims_in(journal) == 1
    assert journal.read_text() == text


@pytest.mark.parametrize("pure_v2", [False, True])
def test_whether_groups_can_be_idle_is_read_from_a_group_that_has_a_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pure_v2: bool
) -> None:
    tree = Hierarchy(cpu=tmp_path, pure_v2=pure_v2)
    (tmp_path / "plain").mkdir()
    monkeypatch.setattr("platform.release", lambda: "5.4.0-x")
    assert not has_idle(tree)
    monkeypatch.setattr("platform.release", lambda: "5.15.0-x")
    assert has_idle(tree) is pure_v2, "without a group to look at the version has to do"
    (tmp_path / "plain" / "cpu.weight").write_text("100")
    assert not has_idle(tree)
    (tmp_path / "plain" / "cpu.idle").write_text("0")
    assert has_idle(tree)
    assert not has_idle(Hierarchy())


def test_looking_at_this_machine_makes_nothing(tmp_path: Path) -> None:
    seen = snapshot(tmp_path / "state")
    assert seen.instance == Instance()
    assert seen.disk is not None
    assert seen.disk.limit > seen.disk.used
    assert not list(tmp_path.iterdir())


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    with StateDir(tmp_path).hold():
        yield tmp_path


def test_an_instance_that_has_the_lock_and_no_address_is_still_starting(held: Path) -> None:
    seen = snapshot(held)
    assert seen.instance.holder == os.getpid()
    assert "still starting" in seen.instance.trouble


@pytest.mark.parametrize(("level", "status"), [(Level.OK, 0), (Level.WARN, 0), (Level.FAIL, 3)])
def test_only_a_failure_is_a_finding_for_scripts(level: Level, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.cli.findings.examine", lambda seen: [Finding("disk", level, "seen", "do this")])
    done = CliRunner().invoke(app, ["doctor", "-o", "json"])
    assert done.exit_code == status
    assert json.loads(done.stdout) == {
        "items": [{"check": "disk", "level": level.value, "seen": "seen", "advice": "do this"}]
    }


def test_colours_only_where_wanted() -> None:
    found = [Finding("disk", Level.WARN, "little", "free some")]
    assert "\x1b[33m" in "\n".join(doctor.lines(found, 80, colours=True))
    assert "\x1b" not in "\n".join(doctor.lines(found, 80, colours=False))


@given(st.integers(60, 200), st.lists(st.text("abc de", max_size=300)))
def test_text_stays_within_the_width(width: int, texts: list[str]) -> None:
    found = [Finding("disk", Level.WARN, text, text) for text in texts]
    longest_word = max((len(word) for text in texts for word in text.split()), default=0)
    assert all(len(line) <= max(width, 20 + longest_word) for line in doctor.lines(found, width, colours=False))


def test_doctor_reports_roles_without_a_token_and_access_problems(tmp_path: Path) -> None:
    seen = [finding for finding in examine(WELL) if finding.check == "access"]
    assert [(one.level, "every user of this machine is admin" in one.seen) for one in seen] == [(Level.OK, True)]
    tokens = tmp_path / "tokens"
    tokens.write_text("anna viewer a-token-for-anna\n")
    tokens.chmod(0o644)
    http = HttpSettings(host="10.0.0.1", tokens_file=tokens, tls_key=tmp_path / "key")
    trouble = access_trouble(http, NatsAccess(user="ingestion"), "nats://127.0.0.1:4222")
    assert ["chmod" in trouble[0], "both" in trouble[1], "PASSWORD" in trouble[2], len(trouble)] == [
        True,
        True,
        True,
        3,
    ]
    worse = examine(replace(WELL, asks_for_token=True, access_trouble=trouble))
    assert sum(one.level is Level.FAIL for one in worse if one.check == "access") == 3
    assert access_trouble(HttpSettings.local(), NatsAccess(), "") == []


@pytest.mark.parametrize(
    ("here", "instance", "asked"), [(False, True, True), (True, False, False), (True, None, True), (False, None, False)]
)
def test_access_is_what_the_running_instance_asks_for_and_else_what_the_settings_say(
    here: bool, instance: bool | None, asked: bool
) -> None:
    seen = replace(WELL, asks_for_token=here, instance=Instance(1, "http://x", asks_for_token=instance))
    assert (finding(seen, "access").seen == "callers of the API need a token") is asked


@pytest.mark.parametrize(
    ("version", "level"), [("20.10.24", Level.WARN), ("25.0.5", Level.WARN), ("26.0.0", Level.OK), ("dev", Level.OK)]
)
def test_a_docker_engine_that_is_too_old_is_a_warning(version: str, level: Level) -> None:
    assert finding(replace(WELL, docker=version), "docker").level is level
    assert not [found for found in examine(WELL) if found.check == "docker"]


def test_the_docker_engine_is_asked_for_its_own_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 20.10.24\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert snapshot(tmp_path).docker == "20.10.24"
    docker.write_text("#!/bin/sh\necho no daemon >&2\nexit 1\n")
    assert snapshot(tmp_path).docker is None


def test_a_token_that_the_instance_refuses_is_a_failure_that_names_its_origin() -> None:
    seen = replace(WELL, instance=Instance(7, "http://127.0.0.1:1", refused_token="SLACKWATER_TOKEN"))
    [refused] = [found for found in examine(seen) if found.check == "access" and found.level is Level.FAIL]
    assert "refuses the token of SLACKWATER_TOKEN" in refused.seen
    assert "leave SLACKWATER_TOKEN out" in refused.advice
