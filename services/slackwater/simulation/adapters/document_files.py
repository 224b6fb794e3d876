"""Files of documents, read once and before anything else: what is in them says what is simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slackwater.model.errors import InvalidInput
from slackwater.runtime.yaml_files import yaml_documents

STRATEGY: Final = "ColocationStrategy"
POLICIES: Final = ("NodeQOS", "PodQOS", "AvoidanceAction", "Autonomy")


@dataclass(frozen=True, slots=True)
class Body:
    """One document as it was written; `origin` is its file and its number in it, from 1."""

    origin: str
    kind: str
    said: Any


@dataclass(frozen=True, slots=True)
class DocumentFile:
    """A file (`-`: standard input) with its documents."""

    path: Path
    bodies: Sequence[Body]

    @property
    def name(self) -> str:
        """Without its folder and its ending."""
        return "stdin" if str(self.path) == "-" else self.path.stem


def load(files: Sequence[Path]) -> list[DocumentFile]:
    """Raises InvalidInput for what cannot be read, is not YAML, or holds a kind that cannot be simulated."""
    return [DocumentFile(file, _bodies(file)) for file in files]


def are_policies(files: Sequence[DocumentFile]) -> bool:
    """Whether they say how nodes are guarded; False: what they offer. Raises InvalidInput for both in one call."""
    kinds = {body.kind: body.origin for file in files for body in file.bodies}
    guards = [kind for kind in POLICIES if kind in kinds]
    if guards and STRATEGY in kinds:
        raise InvalidInput(
            f"kind: {kinds[STRATEGY]} is a {STRATEGY} and {kinds[guards[0]]} a {guards[0]}: what is offered and how "
            "nodes are guarded are simulated apart; give them in two calls",
            field="kind",
        )
    return bool(guards)


def _bodies(file: Path) -> list[Body]:
    return [_body(origin, said) for origin, said in yaml_documents(file)]


def _body(origin: str, said: Any) -> Body:
    kind = said.get("kind") if isinstance(said, dict) else None
    if kind not in (STRATEGY, *POLICIES):
        allowed = ", ".join((STRATEGY, *POLICIES))
        raise InvalidInput(f"{origin}: kind: {kind!r} cannot be simulated; allowed: {allowed}", field="kind")
    return Body(origin, kind, said)
