"""Renders CustomResourceDefinitions, admission policies and roles of every resource kind: as templates of the chart,
and as a plain manifest.

    .venv/bin/python -m contracts.crds FILE     (`make crds`)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from slackwater.resources.catalog import KINDS
from slackwater.resources.crd.admission import admission_objects
from slackwater.resources.crd.definition import definition
from slackwater.resources.crd.roles import role_objects

TEMPLATES = Path("deploy/helm/slackwater/templates")
_HEADER = "Rendered by contracts/crds.py from slackwater.resources.catalog."
_HEAD = ("apiVersion", "kind", "metadata")
_LABELS = '{{- include "slackwater.labels" $ | nindent 4 }}'
_KEPT = "{{- if .Values.crds.keep }}\n  annotations: {helm.sh/resource-policy: keep}\n  {{- end }}"
Manifest = Mapping[str, Any]


class _Plain(yaml.SafeDumper):
    """Without anchors and aliases, which reviewers and some tools do not follow."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def crd_objects() -> Mapping[str, Sequence[Manifest]]:
    """Returns the objects of each kind by its plural, and those of the roles."""
    objects = {kind.plural: [definition(kind), *admission_objects(kind)] for kind in KINDS}
    return {**objects, "roles": role_objects(KINDS)}


def plain_manifest() -> str:
    """Returns all of them as one manifest."""
    return f"# {_HEADER}\n" + "---\n".join(
        yaml_text(manifest) for objects in crd_objects().values() for manifest in objects
    )


def chart_templates() -> Mapping[Path, str]:
    """Returns a template of the chart for each kind, and one for the roles."""
    return {TEMPLATES / f"crds-{name}.yaml": _template(objects) for name, objects in crd_objects().items()}


def _template(objects: Sequence[Manifest]) -> str:
    switch = "rbac.create" if objects[0]["kind"] == "ClusterRole" else "crds.install"
    body = "".join(f"---\n{_templated(manifest)}" for manifest in objects)
    return f"{{{{- /* {_HEADER} */}}}}\n{{{{- if .Values.{switch} }}}}\n{body}{{{{- end }}}}\n"


def _templated(manifest: Manifest) -> str:
    """An object with the labels of the release, and what its kind has of the values."""
    name, kind = manifest["metadata"]["name"], manifest["kind"]
    shown = f'{{{{ include "slackwater.named" (list $ "{name}") }}}}' if kind == "ClusterRole" else name
    labels = [f'    {label}: "{value}"' for label, value in manifest["metadata"]["labels"].items()]
    lines = [f"apiVersion: {manifest['apiVersion']}", f"kind: {kind}", "metadata:", f"  name: {shown}", "  labels:"]
    lines += [*labels, f"    {_LABELS}", *([f"  {_KEPT}"] if kind == "CustomResourceDefinition" else [])]
    body = yaml_text({field: value for field, value in manifest.items() if field not in _HEAD})
    return "\n".join(lines) + "\n" + body.replace("{{", '{{ "{{" }}')


def yaml_text(manifest: Manifest) -> str:
    """An object as YAML, its inner collections in one line."""
    text = yaml.dump(manifest, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return str(text)


if __name__ == "__main__":
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(plain_manifest())
