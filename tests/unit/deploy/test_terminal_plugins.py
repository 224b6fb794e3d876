"""The plugin of kubectl and the plugin file of k9s, held to the command line."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy_files import ROOT, parse

from slackwater.cli import program

PLUGINS: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "k9s" / "plugins.yaml").read_text())["plugins"]
VALUES = {"NAME": "edge-7", "NAMESPACE": "shop", "CONTEXT": "test", "RESOURCE_NAME": "deployments"}
"""What k9s puts into arguments (https://k9scli.io/topics/plugins)."""
_VARIABLE = re.compile(r"\$([A-Z_]+)")
REQUIRED = {"shortCut", "description", "scopes", "command", "args", "background"}


def commands(plugin: dict[str, Any]) -> list[list[str]]:
    """The commands of a plugin's pipe, with the variables of k9s filled in. Raises KeyError for another variable."""
    flag, text = plugin["args"]
    assert (plugin["command"], flag) == ("sh", "-c")
    filled = _VARIABLE.sub(lambda found: VALUES[found[1]], text.replace("2>&1", ""))
    return [shlex.split(part) for part in filled.split("|")]


@pytest.mark.parametrize("name", PLUGINS)
def test_a_k9s_plugin_runs_a_command_that_the_cli_takes(name: str) -> None:
    plugin = PLUGINS[name]
    assert set(plugin) == REQUIRED
    ours = [command[1:] for command in commands(plugin) if command[0] == "slackwater"]
    assert len(ours) == 1
    parse(ours[0])


def test_shortcuts_differ_within_a_scope() -> None:
    pairs = [(scope, plugin["shortCut"]) for plugin in PLUGINS.values() for scope in plugin["scopes"]]
    assert len(pairs) == len(set(pairs))


def test_the_shell_takes_every_pipe() -> None:
    texts = "\n".join(plugin["args"][1] for plugin in PLUGINS.values())
    assert subprocess.run(["sh", "-n", "-c", texts], check=False).returncode == 0


def test_kubectl_finds_the_plugin_by_its_name() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-slackwater"] == "slackwater.cli.program:kubectl"
    assert (Path(sys.executable).parent / "kubectl-slackwater").exists(), "make environment-dev installs it anew"


def test_the_plugin_is_the_command_under_kubectls_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/kubectl-slackwater", "why", "--help"])
    with pytest.raises(SystemExit) as left:
        program.kubectl()
    assert left.value.code == 0
    assert "kubectl slackwater why" in capsys.readouterr().out


def test_kubectl_runs_the_plugin(tmp_path: Path) -> None:
    kubectl = _kubectl()
    if kubectl is None:
        pytest.skip("no kubectl: `make kubernetes` builds one")
    script = Path(sys.executable).parent
    done = subprocess.run(
        [kubectl, "slackwater", "--version"],
        env={"PATH": str(script), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("slackwater "), done.stderr


def _kubectl() -> str | None:
    from tests.kubernetes.build import this_build

    built = this_build()
    return str(built.folder / "kubectl") if built.has(["kubectl"]) else shutil.which("kubectl")
