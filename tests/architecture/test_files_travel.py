"""A clone works anywhere: no path of one machine, no address of one registry, nothing unpinned."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sources import ROOT, tracked

_BINARY = frozenset({".png", ".jpg", ".gif", ".ico", ".woff2", ".gz", ".zip", ".npz"})
_SLASH = "/"  # so that this file does not find itself
PRIVATE = re.compile(
    rf"(?<![\w.~}}-]){_SLASH}(?:work|root|home/\w+){_SLASH}[\w.]"
    rf"|https?:{_SLASH}{_SLASH}[^\s\"']*(?:pypi|pythonhosted|/simple\b|registry\.npmjs|artifactory|devpi|:3141)"
)
_PINNED = re.compile(r"[a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,-]+\])?==\S+(?: ; [^\\]+)?(?: \\)?")
_HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def private_places(text: str) -> list[str]:
    return [match[0] for match in PRIVATE.finditer(text)]


def loose_lines(lock: str) -> Iterator[str]:
    """Lines of a lock that are neither a pinned distribution nor a hash; and distributions without any hash."""
    lines = lock.splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _PINNED.fullmatch(line):
            if not _HASH.fullmatch(following):
                yield f"{line} (no hash)"
        elif not _HASH.fullmatch(line):
            yield line


def test_no_file_names_a_place_of_this_machine_or_a_registry() -> None:
    found = {}
    for path in tracked():
        if path.suffix not in _BINARY and (places := private_places((ROOT / path).read_text(errors="replace"))):
            found[str(path)] = places
    assert found == {}


@pytest.mark.parametrize("lock", sorted(file.name for file in ROOT.glob("requirements*.lock")))
def test_a_lock_has_pins_and_hashes_only(lock: str) -> None:
    assert list(loose_lines((ROOT / lock).read_text())) == []


@pytest.mark.parametrize(
    "planted",
    [
        _SLASH + "work/main/README.md",
        f"see {_SLASH}root{_SLASH}.cache",
        f"https:{_SLASH}{_SLASH}pypi.org{_SLASH}simple",
        f"http:{_SLASH}{_SLASH}10.0.0.1:3141{_SLASH}x",
    ],
)
def test_a_planted_place_is_found(planted: str) -> None:
    assert private_places(planted)


@pytest.mark.parametrize("harmless", ["{path}" + _SLASH + "work/x", "prod/root/", "https://slackwater.io/schemas/x"])
def test_what_only_looks_like_one_is_not(harmless: str) -> None:
    assert not private_places(harmless)


GOOD = "anyio==4.0 ; python_version >= '3.11' \\\n    --hash=sha256:" + "0" * 64 + "\n"


@pytest.mark.parametrize(
    "planted",
    [
        "anyio==4.0\n",
        "anyio>=4\n" + GOOD,
        f"--index-url https:{_SLASH}{_SLASH}example.org\n" + GOOD,
        GOOD + "-e .\n",
        f"a @ file:{_SLASH}{_SLASH}{_SLASH}x\n",
        "# via x\n" + GOOD,
    ],
)
def test_a_planted_loose_line_is_found(planted: str) -> None:
    assert list(loose_lines(GOOD)) == []
    assert list(loose_lines(planted))
