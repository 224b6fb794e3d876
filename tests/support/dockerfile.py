"""Reads a Dockerfile: the instructions of a stage, with those of the stages it starts from."""

from __future__ import annotations

import re

Instruction = tuple[str, str]
"""Its name and the rest of the line, continuation lines joined."""
_FROM = re.compile(r"(\S+) AS (\S+)")


def stages(text: str) -> dict[str, tuple[str, list[Instruction]]]:
    """By name, in the order of the file: the base and its own instructions."""
    found: dict[str, tuple[str, list[Instruction]]] = {}
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    instructions: list[Instruction] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        name, rest = line.split(maxsplit=1)
        if name == "FROM":
            match = _FROM.fullmatch(rest)
            if match is None:
                raise ValueError(f"a stage without a name: {line}")
            instructions = []
            found[match[2]] = (match[1], instructions)
        else:
            instructions.append((name, rest))
    return found


def stage_of(text: str, name: str) -> list[Instruction]:
    """The instructions that hold in the image of a stage, in order. Raises KeyError."""
    known = stages(text)
    base, own = known[name]
    return [*(stage_of(text, base) if base in known else ()), *own]
