"""The plain manifests of a version on a real API server, then those of today by the commands of the page.

None is refused, nothing of the former stays behind, and the objects become what a new installation has. The first
release line begins with this version, which is built here; a release adds `previous/manifests-VERSION.yaml`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane, running
from tests.kubernetes.manifests import Identity, identity, with_adapter

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "install-on-kubernetes.md"
MANIFESTS = ".slackwater/manifests/slackwater.yaml"
RELEASED = sorted((Path(__file__).parent / "previous").glob("manifests-*.yaml"))
LABELS_OF_THE_SERVER = (
    *("kubernetes.io/metadata.name", "controller-uid", "job-name"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"),
)
MAPS = ("labels", "matchLabels", "nodeSelector", "selector", "limits", "requests", "data")
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def plane(servers_home: Path) -> Iterator[ControlPlane]:
    """An API server of this module: the definitions of a shared one are deleted only after a while."""
    made = this_build()
    if not made.has(("etcd", "kube-apiserver", "kubectl")):
        pytest.skip("manifests are applied to an API server: `make kubernetes` builds one")
    with running(made.folder, servers_home / "upgrade") as plane:
        yield plane


@pytest.fixture
def kubectl(plane: ControlPlane) -> Kubectl:
    program, admin_kubeconfig = this_build().folder / "kubectl", plane.kubeconfig

    def call(*arguments: str) -> str:
        command = [str(program), "--kubeconfig", str(admin_kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    return call


def upgrade_commands() -> Iterator[list[str]]:
    """Those of the page for a new version, without the waiting for what only controllers do."""
    section = PAGE.read_text().partition("A new version: ")[2].partition("## ")[0]
    for line in section.partition("```\n")[2].partition("```")[0].splitlines():
        words = line.split()
        if words and "wait" not in words:
            yield words[1:]


def listed(text: str) -> dict[Identity, dict[str, Any]]:
    """The objects of YAML documents, of which a List is one of many."""
    documents = [one for one in yaml.safe_load_all(text) if one]
    return {identity(one): one for document in documents for one in document.get("items", [document])}


def leftovers(wanted: Any, live: Any, path: str = "") -> Iterator[str]:
    """Where an object has not what its manifest says, or entries of lists and maps that it does not name. Fields that
    the manifest leaves out are the server's defaults."""
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        is_map = path.rpartition(".")[2] in MAPS
        more = [key for key in live if is_map and key not in wanted and key not in LABELS_OF_THE_SERVER]
        yield from (f"{path}.{key}: more" for key in more)
        for key, value in wanted.items():
            yield from leftovers(value, live.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(live, list):
        if len(wanted) != len(live):
            yield f"{path}: {len(live)} for {len(wanted)}"
        for number, (one, other) in enumerate(zip(wanted, live, strict=False)):
            yield from leftovers(one, other, f"{path}[{number}]")
    elif wanted != live and not (wanted in (None, {}, "") and live in (None, {}, "")):
        yield f"{path}: {live!r} for {wanted!r}"


def test_what_an_older_manifest_left_in_an_object_is_seen() -> None:
    wanted = {"selector": {"app": "a"}, "env": [{"name": "A", "value": "1"}]}
    assert list(leftovers(wanted, {**wanted, "default": 1})) == []
    older = {"selector": {"app": "a", "tier": "b"}, "env": [{"name": "A", "value": "2"}, {"name": "B"}]}
    assert list(leftovers(wanted, older)) == [".selector.tier: more", ".env: 2 for 1", ".env[0].value: '2' for '1'"]


def test_todays_manifests_take_over_from_former_ones(kubectl: Kubectl, tmp_path: Path) -> None:
    (this_version := tmp_path / "slackwater.yaml").write_text(yaml.safe_dump_all(with_adapter()))
    today = listed(this_version.read_text())
    before: dict[Identity, dict[str, Any]] = {}
    for manifests in (*RELEASED, this_version):
        kubectl("delete", "job/migrate", "--namespace", "slackwater", "--ignore-not-found")
        kubectl("apply", "--server-side", "-f", str(manifests))
        before |= listed(manifests.read_text())
    for command in upgrade_commands():
        kubectl(*[word.replace(MANIFESTS, str(this_version)) for word in command])
    live = listed(kubectl("get", "-f", str(this_version), "-o", "yaml"))
    assert live.keys() == today.keys()
    assert before.keys() - today.keys() == set(), "an object of the former manifests that nothing removes"
    wrong = {key: found for key, one in today.items() if (found := list(leftovers(one, live[key])))}
    assert wrong == {}
