"""Reads document files once, before the history. The kinds of the documents select what is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slackwater.model.errors import InvalidInput
from slackwater.runtime.yaml_files import yaml_documents

STRATEGY: Final = "ColocationStrategy"
POLICIES: Final = ("NodeQOS", "PodQOS", "AvoidanceAction", "Autonomy")
QUOTAS: Final = ("ElasticQuota", "QuotaProfile")
PROFILE: Final = "DeschedulerProfile"


@dataclass(frozen=True, slots=True)
class Body:
    """One document as written. `origin` is its file and its position in the file, from 1."""

    origin: str
    kind: str
    said: Any


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file and its documents; `-` is standard input."""

    path: Path
    bodies: Sequence[Body]

    @property
    def name(self) -> str:
        """The file's name without folder and suffix."""
        return "stdin" if str(self.path) == "-" else self.path.stem


def load(files: Sequence[Path]) -> list[DocumentFile]:
    """Raises InvalidInput if a file cannot be read, is not YAML, or holds a kind that cannot be simulated."""
    return [DocumentFile(file, _bodies(file)) for file in files]


def are_policies(files: Sequence[DocumentFile]) -> bool:
    """Returns True for ensurance policies, False for strategies. Raises InvalidInput if both are mixed."""
    kinds = {body.kind: body.origin for file in files for body in file.bodies}
    guards = [kind for kind in POLICIES if kind in kinds]
    if guards and STRATEGY in kinds:
        raise InvalidInput(
            f"kind: {kinds[STRATEGY]} is a {STRATEGY} and {kinds[guards[0]]} a {guards[0]}: strategies and ensurance "
            "policies cannot be simulated together; run the command once for each",
            field="kind",
        )
    return bool(guards)


def are_quotas(files: Sequence[DocumentFile]) -> bool:
    """Returns whether the files hold quotas. Raises InvalidInput if they hold anything else too."""
    return _are(files, QUOTAS, "quotas")


def are_profiles(files: Sequence[DocumentFile]) -> bool:
    """Returns whether the files hold descheduler profiles. Raises InvalidInput if they hold anything else too."""
    return _are(files, (PROFILE,), "descheduler profiles")


def _are(files: Sequence[DocumentFile], wanted: Sequence[str], noun: str) -> bool:
    kinds = {body.kind: body.origin for file in files for body in file.bodies}
    others = [kind for kind in kinds if kind not in wanted]
    if others and len(others) < len(kinds):
        raise InvalidInput(
            f"kind: {kinds[others[0]]} is a {others[0]}, which is not simulated together with {noun}; run the command "
            "once for each",
            field="kind",
        )
    return bool(kinds) and not others


def _bodies(file: Path) -> list[Body]:
    return [_body(origin, said) for origin, said in yaml_documents(file)]


def _body(origin: str, said: Any) -> Body:
    kind = said.get("kind") if isinstance(said, dict) else None
    if kind not in (STRATEGY, *POLICIES, *QUOTAS, PROFILE):
        allowed = ", ".join((STRATEGY, *POLICIES, *QUOTAS, PROFILE))
        raise InvalidInput(f"{origin}: kind: {kind!r} cannot be simulated; allowed: {allowed}", field="kind")
    return Body(origin, kind, said)
