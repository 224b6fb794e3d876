"""`slackwater import koordinator`: its output is applied as it is, against the routes of every kind that it makes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import strategy_scene
import yaml
from fastapi import APIRouter
from guard_documents import DocumentScene
from served_routes import Do, doing, served
from tests.support.kinds import KindScene
from typer.testing import CliRunner

from slackwater.cli.main import app
from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE
from slackwater.resources.kinds.elastic_quota import ELASTIC_QUOTA
from slackwater.resources.kinds.quota_profile import QUOTA_PROFILE
from slackwater.runtime.resource_routes import resource_router

PUBLISHED = Path(__file__).parents[1] / "koordinator" / "koordinator.yaml"


@pytest.fixture
def url() -> Iterator[str]:
    async def routers() -> list[APIRouter]:
        strategies = await strategy_scene.Replica().open()
        guard = DocumentScene()
        await guard.open()
        others = [
            (await KindScene(kind).open()).change for kind in (ELASTIC_QUOTA, QUOTA_PROFILE, CLUSTER_COLOCATION_PROFILE)
        ]
        return [resource_router(change) for change in (strategies.change, *guard.changes.values(), *others)]

    with served(routers) as found:
        yield found


@pytest.fixture
def do(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Do:
    return doing(url, tmp_path, monkeypatch)


def test_the_output_applies_as_it_is(do: Do) -> None:
    done = do("import", "koordinator", "-f", str(PUBLISHED))
    assert done.exit_code == 0, done.stderr
    tried = do("apply", done.stdout, "--dry-run=server")
    assert tried.exit_code == 0, tried.stderr
    titles = {
        line.removesuffix(" would be created").removesuffix(" would be configured")
        for line in tried.stdout.splitlines()
        if " would be " in line
    }
    assert titles == {f"{one['kind'].lower()}/{one['metadata']['name']}" for one in yaml.safe_load_all(done.stdout)}
    assert do("apply", done.stdout).exit_code == 0
    assert do("diff", done.stdout).exit_code == 0


def test_the_report_ends_with_what_needs_attention(do: Do) -> None:
    done = do("import", "koordinator", "-f", str(PUBLISHED), "--strict")
    assert done.exit_code == 3
    outcomes = [line.split()[0] for line in done.stderr.splitlines() if line[:1] != " "]
    assert outcomes[0] == "converted"
    assert outcomes[-2] == "dropped"
    assert done.stderr.splitlines()[-1].endswith("0 refused")


def test_json_has_documents_and_report(do: Do) -> None:
    found = json.loads(do("import", "koordinator", "-f", str(PUBLISHED), "-o", "json").stdout)
    assert {"ColocationStrategy", "ElasticQuota", "ClusterColocationProfile"} <= {one["kind"] for one in found["items"]}
    assert all({"outcome", "source", "note", "count"} <= set(line) for line in found["report"])


def test_what_the_model_refuses_is_reported_and_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    profile = (
        "{kind: ClusterColocationProfile, apiVersion: config.koordinator.sh/v1alpha1, metadata: {name: p}, spec: %s}"
    )
    file.write_text(profile % "{selector: {}, qosClass: LSR, priorityClassName: koord-batch}")
    done = CliRunner().invoke(app, ["import", "koordinator", "-f", str(file)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "refused   ClusterColocationProfile p -> ClusterColocationProfile/p: spec" in done.stderr
    assert "LSR" in done.stderr


def test_what_is_below_a_refused_quota_is_refused_with_it(tmp_path: Path) -> None:
    prefix = "quota.scheduling.koordinator.sh"
    quotas = [
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": name, "labels": {f"{prefix}/parent": parent, f"{prefix}/is-parent": "true"}},
            "spec": {"max": {"cpu": "8"}, "min": {"cpu": least}},
        }
        for name, parent, least in (("a", "", "9"), ("b", "a", "1"), ("c", "b", "1"), ("d", "", "1"))
    ]
    file = tmp_path / "quotas.yaml"
    file.write_text(yaml.safe_dump_all(quotas))
    done = CliRunner().invoke(app, ["import", "koordinator", "-f", str(file)])
    assert done.exit_code == 1
    assert [one["metadata"]["name"] for one in yaml.safe_load_all(done.stdout)] == ["d"]
    assert "its parent ElasticQuota/a is refused" in done.stderr
    assert "its parent ElasticQuota/b is refused" in done.stderr


def test_a_file_without_koordinator_says_so(tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text("kind: Secret\nmetadata: {name: a}\n")
    done = CliRunner().invoke(app, ["import", "koordinator", "-f", str(tmp_path / "pod.yaml")])
    assert "nothing of Koordinator was found" in done.stderr
