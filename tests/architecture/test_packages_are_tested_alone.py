"""The table of CONTRIBUTING has every package, and what it names exists."""

from __future__ import annotations

import re

from sources import ROOT

ROW = re.compile(r"^\| `([\w`, ]+)` \| `([^`|]+)` \|", re.MULTILINE)


def rows() -> dict[str, str]:
    """The arguments of each package."""
    found = ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    return {package: arguments for names, arguments in found for package in names.replace("`", "").split(", ")}


def packages() -> set[str]:
    """The packages of the tree: a folder with modules of ours."""
    folders = [*(ROOT / "services" / "slackwater").iterdir(), *(ROOT / "libs" / "slackwater").iterdir()]
    return {folder.name for folder in folders if (folder / "__init__.py").is_file()}


def test_every_package_has_its_tests() -> None:
    assert rows().keys() == packages()


def test_the_tests_of_a_package_are_there() -> None:
    for package, arguments in rows().items():
        for argument in arguments.split():
            assert list(ROOT.glob(argument)), f"{package}: there is no {argument}"


def test_what_is_named_after_a_package_is_among_its_tests() -> None:
    for package, arguments in rows().items():
        named = {path for path in ROOT.glob(f"tests/*/{package}") if any(path.glob("test_*.py"))}
        assert named <= {path for argument in arguments.split() for path in ROOT.glob(argument)}, package
