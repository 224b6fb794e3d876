"""Odd values of the chart: names like numbers, registries and digests in names, texts that are none."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from tests.kubernetes.helm import CHART, IS_THERE, WHY_NOT, call, rendered
from tests.kubernetes.odd_values import REFUSED, SHA, TAKEN

pytestmark = pytest.mark.skipif(not IS_THERE, reason=WHY_NOT)


@pytest.mark.parametrize(
    ("image", "services", "agent"),
    [
        (
            {"registry": "m:5000/proxy/"},
            "m:5000/proxy/slackwater/slackwater:V",
            "m:5000/proxy/slackwater/slackwater-agent:V",
        ),
        ({"repository": "ghcr.io/team/lend"}, "ghcr.io/team/lend:V", "ghcr.io/team/lend-agent:V"),
        ({"repository": "r:5000/lend:v1"}, "r:5000/lend:v1", "r:5000/lend-agent:v1"),
        ({"repository": "localhost/lend", "tag": "x"}, "localhost/lend:x", "localhost/lend-agent:x"),
        ({"repository": f"ghcr.io/lend@{SHA}"}, f"ghcr.io/lend@{SHA}", "ghcr.io/lend-agent:V"),
        ({"repository": f"lend:v1@{SHA}"}, f"docker.io/lend@{SHA}", "docker.io/lend-agent:v1"),
        ({"registry": "", "digest": SHA}, f"slackwater/slackwater@{SHA}", "slackwater/slackwater-agent:V"),
    ],
)
def test_an_image_is_named_as_container_runtimes_do(image: dict[str, str], services: str, agent: str) -> None:
    (objects,) = rendered({"image": image})
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    names = {kind: images(objects, kind) for kind in ("Deployment", "DaemonSet", "StatefulSet")}
    assert names["Deployment"] == {services.replace(":V", f":{version}")}
    assert names["DaemonSet"] == {agent.replace(":V", f":{version}")}
    registry = image.get("registry", "docker.io").rstrip("/")
    servers = {f"{registry}/{name}".lstrip("/") for name in ("library/postgres:18", "library/nats:2")}
    assert names["StatefulSet"] == servers


def test_images_of_servers_and_agents_are_named_alike() -> None:
    own = {
        "agent": {"image": {"repository": f"ghcr.io/x/agent@{SHA}"}},
        "postgresql": {"image": {"repository": "ghcr.io/x/postgres:17"}},
        "nats": {"image": {"registry": "quay.io"}},
    }
    (objects,) = rendered({**own, "image": {"registry": "m:5000", "digest": SHA}})
    assert images(objects, "DaemonSet") == {f"ghcr.io/x/agent@{SHA}"}
    assert images(objects, "StatefulSet") == {"ghcr.io/x/postgres:17", "quay.io/library/nats:2"}


def images(objects: list[Any], kind: str) -> set[str]:
    containers = (one["spec"]["template"]["spec"]["containers"] for one in objects if one["kind"] == kind)
    return {found[0]["image"] for found in containers}


@pytest.mark.parametrize("title", TAKEN)
def test_names_are_texts_and_those_of_the_chart(title: str) -> None:
    release, values = TAKEN[title]
    (objects,) = rendered(values, namespace="lending", name=release)
    texts = re.compile(r"\"(secretName|ingressClassName|name|key)\": (?!\")")
    made = [one for one in objects if one["kind"] not in ("CustomResourceDefinition", "ValidatingAdmissionPolicy")]
    assert [one["metadata"]["name"] for one in made if texts.search(yaml.dump(one, default_style='"'))] == []
    for one in made:
        labels = one["metadata"]["labels"]
        assert labels.get("app.kubernetes.io/part-of", "slackwater") == "slackwater"
        assert labels["app.kubernetes.io/instance"] == release
        if one["kind"] == "Service":
            assert re.fullmatch(r"[a-z][a-z0-9-]{0,61}[a-z0-9]", one["metadata"]["name"])


def test_off_is_off_however_yaml_reads_it() -> None:
    release, values = TAKEN["off-as-yaml-reads-it"]
    (objects,) = rendered(values, namespace="lending", name=release)
    (service,) = (
        one for one in objects if (one["kind"], one["metadata"]["name"]) == ("Deployment", "a-slackwater-kubernetes")
    )
    (container,) = service["spec"]["template"]["spec"]["containers"]
    given = {variable["name"]: variable.get("value") for variable in container["env"]}
    features = ("EVICTIONS", "CORDONS", "PROFILES")
    assert {given[f"SLACKWATER_KUBERNETES_{feature}"] for feature in features} == {"off"}


def test_what_the_api_server_would_refuse_is_refused_and_named_before() -> None:
    found = call("validate", chart=str(CHART), values=list(REFUSED.values()))
    assert {field: f"'{field}'" in problem for field, problem in zip(REFUSED, found, strict=True)} == dict.fromkeys(
        REFUSED, True
    )
