"""Files that describe workloads: what is read, and what is said of those that are wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.clock import EPOCH

from slackwater.agent.adapters.linux.workload_files import MOST_BYTES, WorkloadFiles, read_template
from slackwater.agent.domain.admission import admit
from slackwater.agent.domain.workload_template import ReadyCheck, node_labels
from slackwater.model.errors import InvalidInput
from slackwater.model.workload_labels import TEMPLATE_LABEL, digest_of

SPEC: dict[str, Any] = {"command": ["server", "--port", "80"], "tier": "prod"}


def document(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "slackwater.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "api", "labels": {"team": "a"}},
        "spec": {**SPEC, **spec},
    }


def written(folder: Path, content: Any, name: str = "api.yaml") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def test_a_file_is_what_exec_would_be_given(tmp_path: Path) -> None:
    path = written(tmp_path, document(cpu="500m", movable=True, ready={"address": "[::1]:80", "withinSeconds": 5}))
    template = read_template(path)
    pod = admit(template.command, "uid", EPOCH)
    assert (pod.workload, pod.tier, pod.request.cpu_milli) == ("api", "prod", 500)
    assert pod.labels == {"team": "a", TEMPLATE_LABEL: digest_of(path.read_bytes())}
    assert template.command.arguments == ("server", "--port", "80")
    assert template.ready == ReadyCheck("::1", 80, (), 5)
    assert node_labels({"api": template}) == {"workload.slackwater.io/api": template.digest}


def test_what_may_not_be_moved_is_no_label_of_the_node(tmp_path: Path) -> None:
    assert node_labels({"api": read_template(written(tmp_path, document()))}) == {}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (document(tier="gold"), "spec.tier: Input should be 'prod', 'mid', 'batch' or 'free'"),
        (document(command=[]), "spec.command: List should have at least 1 item"),
        (document(movable="yes"), "spec.movable: Input should be a valid boolean"),
        (document(port=80), "spec.port: Extra inputs are not permitted"),
        (document(ready={"address": "nowhere"}), "spec.ready.address: String should match"),
        (document(ready={"address": "a:1", "command": ["x"]}), "spec.ready: Value error, address and command"),
        (document(ready={"address": "a:99999"}), "spec.ready: Value error, the port of a:99999 must be 1 to 65535"),
        (document(cpu="many"), "--cpu: 'many'"),
        (document(qos="LSR", tier="batch"), "--qos: 'LSR' does not go with --tier batch"),
        ({**document(), "kind": "Pod"}, "kind: Input should be 'Workload'"),
        ({**document(), "metadata": {"name": "web"}}, "metadata.name: is 'web'; the file is named api.yaml"),
        ("[", "is not YAML"),
        ("- a", "document: Input should be a valid dictionary"),
        ("#" * (MOST_BYTES + 1), "is larger than 65536 bytes, the most allowed"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_field(tmp_path: Path, content: Any, said: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(InvalidInput) as refused:
        read_template(path)
    assert str(path) in refused.value.message
    assert said in refused.value.message


def test_a_folder_follows_its_files_and_leaves_wrong_ones_out(tmp_path: Path) -> None:
    files = WorkloadFiles(tmp_path / "none")
    assert files.templates() == {}
    files = WorkloadFiles(tmp_path)
    path = written(tmp_path, document())
    written(tmp_path, "[", "broken.yaml")
    before = files.templates()["api"]
    assert list(files.templates()) == ["api"]
    assert files.templates()["api"] is before
    written(tmp_path, document(cpu="2"))
    assert files.templates()["api"].digest != before.digest
    path.unlink()
    assert files.templates() == {}


def test_a_pipe_or_a_huge_file_costs_nothing(tmp_path: Path) -> None:
    """Opening a pipe waits for a writer, which would stop the agent."""
    os.mkfifo(tmp_path / "pipe.yaml")
    with (tmp_path / "huge.yaml").open("wb") as file:
        file.truncate(1 << 40)
    written(tmp_path, document())
    assert list(WorkloadFiles(tmp_path).templates()) == ["api"]
    with pytest.raises(InvalidInput, match="not a regular file"):
        read_template(tmp_path / "pipe.yaml")
