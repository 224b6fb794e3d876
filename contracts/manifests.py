"""Renders the chart as plain manifests, which kubectl applies without Helm.

    .venv/bin/python -m contracts.manifests FOLDER [VALUES]     (`make manifests`)

writes slackwater.yaml, and restore.yaml, which is applied after a disaster. VALUES is a file of values that go before
those of values-plain.yaml.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from contracts.crds import yaml_text

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "slackwater"
NAMESPACE = "slackwater"
_HELM = "helm.sh/"
_MANAGED_BY = "app.kubernetes.io/managed-by"
Tree = dict[str, Any]


def plain_values(values: Mapping[str, Any]) -> Tree:
    """Returns the values with which a release has plain names, with these before them."""
    return _merged(yaml.safe_load((CHART / "values-plain.yaml").read_text()), values)


def plain_objects(rendered: Iterable[Mapping[str, Any]]) -> list[Tree]:
    """Returns the objects of a release without what only Helm reads: its labels, annotations and test."""
    return [
        _without_helm(manifest) for manifest in rendered if "test" not in _annotations(manifest).get("helm.sh/hook", "")
    ]


def namespaces(values: Mapping[str, Any]) -> list[Tree]:
    """Returns that of the control plane, which runs under the restricted standard, and that of the agents, which must
    write cgroups."""
    return [_namespace(NAMESPACE, "restricted"), _namespace(values["agent"]["namespace"], "privileged")]


def _namespace(name: str, standard: str) -> Tree:
    labels = {"app.kubernetes.io/part-of": "slackwater", "pod-security.kubernetes.io/enforce": standard}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """Values as Helm merges files of them: mappings key by key, anything else as a whole."""
    merged = dict(below)
    for name, value in above.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _annotations(manifest: Mapping[str, Any]) -> Mapping[str, str]:
    annotations: Mapping[str, str] = manifest["metadata"].get("annotations") or {}
    return annotations


def _without_helm(manifest: Mapping[str, Any]) -> Tree:
    metadata = dict(manifest["metadata"])
    for field in ("labels", "annotations"):
        pairs = {name: value for name, value in (metadata.pop(field, None) or {}).items() if not _is_helms(name)}
        metadata |= {field: pairs} if pairs else {}
    return {**manifest, "metadata": metadata}


def _is_helms(name: str) -> bool:
    return name.startswith(_HELM) or name == _MANAGED_BY


def _rendered(*values: Mapping[str, Any]) -> list[list[Tree]]:
    import helm_python as helm

    with helm.Chart.load(str(CHART)) as chart:
        answers = [chart.render(dict(given), name=NAMESPACE, namespace=NAMESPACE) for given in values]
    texts = (
        "\n---\n".join(text for name, text in sorted(files.items()) if name.endswith(".yaml")) for files in answers
    )
    return [[manifest for manifest in yaml.safe_load_all(text) if manifest] for text in texts]


def write_manifests(folder: Path, given: Mapping[str, Any]) -> None:
    """Write both files."""
    values = plain_values(given)
    release, restoring = map(plain_objects, _rendered(values, _merged(values, {"backup": {"restore": True}})))
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "slackwater.yaml", [*namespaces(values), *release])
    _write(folder / "restore.yaml", [manifest for manifest in restoring if manifest not in release])


def _write(file: Path, manifests: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("---\n".join(map(yaml_text, manifests)))


def main(arguments: Sequence[str]) -> None:
    folder, *files = map(Path, arguments)
    write_manifests(folder, yaml.safe_load(files[0].read_text()) if files else {})


if __name__ == "__main__":
    main(sys.argv[1:])
