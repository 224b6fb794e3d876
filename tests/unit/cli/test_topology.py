"""`slackwater get topology`: CPUs and their pods, as the agent has published them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slackwater.agent.adapters.placement_files import PLACEMENTS
from slackwater.cli.output_form import parse_output
from slackwater.cli.topology import print_topology
from slackwater.model.errors import InvalidInput, NotFound

_ANSWER = {
    "off": "",
    "pods": {"lsr": {"cpus": "0", "mems": "", "kind": "dedicated"}, "web": {"cpus": "1", "mems": "", "kind": "shared"}},
    "refused": {"lse": "cpus: too few"},
    "others": {"LS": "1"},
    "pools": ["share: 2 -> 1 CPUs"],
    "machine": [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLACKWATER_STATE_DIR", str(tmp_path))
    (tmp_path / "agent").mkdir(mode=0o700)
    return tmp_path / "agent"


def test_each_cpu_has_a_line_and_the_owner_is_marked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / PLACEMENTS).write_text(json.dumps(_ANSWER))
    print_topology(None, parse_output("table"), headers=True)
    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()] == [
        ["SOCKET", "NUMA", "CORE", "CPU", "PODS"],
        ["0", "0", "0", "0", "lsr!"],
        ["0", "0", "1", "1", "web"],
    ]
    assert "share: 2 -> 1 CPUs" in printed.err
    assert "lse: refused: cpus: too few" in printed.err
    print_topology(None, parse_output("json"), headers=True)
    assert json.loads(capsys.readouterr().out) == _ANSWER


def test_what_is_not_here_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound, match="no agent has placed pods"):
        print_topology(None, parse_output("table"), headers=True)
    with pytest.raises(InvalidInput, match="are read on elsewhere"):
        print_topology("elsewhere", parse_output("table"), headers=True)
    (folder / PLACEMENTS).write_text('{"off": "a reason"}')
    print_topology(None, parse_output("table"), headers=True)
    assert "no CPUs of their own: a reason" in capsys.readouterr().err
