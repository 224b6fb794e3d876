"""The plain manifests as `make manifests` writes them, as objects, and what values add to them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from contracts.manifests import namespaces, plain_objects, plain_values
from tests.kubernetes.helm import IS_THERE, WHY_NOT, rendered

Document = dict[str, Any]
Identity = tuple[str, str, str]
ADAPTER = {"kubernetes": {"enabled": True, "documents": True}}
RESTORE = {"backup": {"restore": True}}


def release() -> list[Document]:
    """Returns the objects of slackwater.yaml."""
    return copy.deepcopy([*namespaces(plain_values({})), *_renderings()[0]])


def adapter() -> list[Document]:
    """Returns the objects that the service kubernetes adds, with every feature."""
    return copy.deepcopy(_added(1))


def with_adapter() -> list[Document]:
    """Returns the objects of slackwater.yaml with the service kubernetes and every feature."""
    return copy.deepcopy([*namespaces(plain_values({})), *_renderings()[1]])


def restore() -> list[Document]:
    """Returns the objects of restore.yaml."""
    return copy.deepcopy(_added(2))


def identity(document: Mapping[str, Any]) -> Identity:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def find(objects: Sequence[Document], kind: str, name: str) -> Document:
    (document,) = (one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return document


def _added(number: int) -> list[Document]:
    plain = set(map(identity, _renderings()[0]))
    return [document for document in _renderings()[number] if identity(document) not in plain]


@cache
def _renderings() -> Sequence[list[Document]]:
    if not IS_THERE:
        pytest.skip(WHY_NOT, allow_module_level=True)
    return [plain_objects(objects) for objects in rendered(*map(plain_values, ({}, ADAPTER, RESTORE)))]
