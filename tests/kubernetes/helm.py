"""Helm 4 in a process of its own: its Go runtime sets signal handlers, which the test session has too.

`python -m tests.kubernetes.helm` reads one call as JSON from standard input, and prints its answer as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "slackwater"
SECONDS = 300.0
IS_THERE = find_spec("helm_python") is not None
WHY_NOT = "helm-python-sdk has no wheel for this machine (decision 0122)"


class HelmRefused(Exception):
    """Helm's own message."""


def call(action: str, **arguments: Any) -> Any:
    """The answer of one call. Raises HelmRefused."""
    request = json.dumps({"action": action, **arguments})
    done = subprocess.run(
        [sys.executable, "-m", "tests.kubernetes.helm"],
        input=request,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        cwd=CHART.parents[2],
    )
    if done.returncode != 0:
        raise HelmRefused(done.stderr.strip())
    return json.loads(done.stdout)


def rendered(
    *values: Mapping[str, Any], namespace: str = "slackwater", name: str = "slackwater", upgrade: bool = False
) -> list[list[dict[str, Any]]]:
    """All objects of a release, for each of the given values. Without a cluster: nothing is looked up in it."""
    answers = call("render", chart=str(CHART), values=values, namespace=namespace, name=name, upgrade=upgrade)
    texts = ("\n---\n".join(text for name, text in sorted(one.items()) if name.endswith(".yaml")) for one in answers)
    return [[document for document in yaml.safe_load_all(text) if document] for text in texts]


def _answer(request: dict[str, Any]) -> Any:
    import helm_python as helm

    match action := request.pop("action"):
        case "render":
            with helm.Chart.load(request["chart"]) as chart:
                upgrade = {"is_install": not request["upgrade"], "is_upgrade": request["upgrade"]}
                options = {"name": request["name"], "namespace": request["namespace"], **upgrade}
                return [chart.render(values, **options) for values in request["values"]]
        case "lint":
            return helm.lint(request["chart"], request["values"], strict=True)
        case "validate":
            with helm.Chart.load(request["chart"]) as chart:
                return [_problem(chart, values) for values in request["values"]]
    kubeconfig = request.pop("kubeconfig")
    native = request.pop("native", {})
    namespace = request["namespace"] if action in ("install", "upgrade") else request.pop("namespace")
    with helm.Config(kubeconfig_path=kubeconfig, namespace=namespace) as cluster:
        _pass_on(native)
        return getattr(cluster, action)(**request)


def _pass_on(options: Mapping[str, Any]) -> None:
    """Make Helm take options that its binding has no parameters for: the native library reads them of the same JSON."""
    from helm_python import config

    inner = config._opts
    config._opts = lambda **pairs: inner(**pairs, **options)


def _problem(chart: Any, values: Mapping[str, Any]) -> str:
    """Why the schema refuses these values; empty if it takes them."""
    import helm_python as helm

    try:
        chart.validate_schema(values)
    except helm.HelmValuesError as error:
        return str(error)
    return ""


def main() -> int:
    import helm_python as helm

    try:
        sys.stdout.write(json.dumps(_answer(json.load(sys.stdin))))
    except helm.HelmError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
