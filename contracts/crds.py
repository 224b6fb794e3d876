"""Renders CustomResourceDefinitions, admission policies and roles of every resource kind: for the chart, and as plain
manifests.

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

_HEADER = "# Rendered by contracts/crds.py from slackwater.resources.catalog.\n"


class _Plain(yaml.SafeDumper):
    """Without anchors and aliases, which reviewers and some tools do not follow."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def crd_objects() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Returns the objects of each kind by its plural, and those of the roles."""
    objects = {kind.plural: [definition(kind), *admission_objects(kind)] for kind in KINDS}
    return {**objects, "roles": role_objects(KINDS)}


def plain_manifest() -> str:
    """Returns all of them as one manifest."""
    objects = [definition for of_kind in crd_objects().values() for definition in of_kind]
    return _HEADER + str(yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110))


if __name__ == "__main__":
    Path(sys.argv[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(sys.argv[1]).write_text(plain_manifest())
