"""`make sbom`: the image's bill of materials in CycloneDX: locked packages with version, hashes, licence, dependencies.

Licences and the dependency graph are read from the installed environment, versions and hashes from
`requirements-image.lock`; a package that is not in the image is left out.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements-image.lock"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")

Bom = dict[str, Any]
Lock = dict[str, dict[str, list[str]]]
"""SHA-256 hashes of the distributions, by normalised name and version: markers may lock several versions of a name."""


def locked(text: str) -> Lock:
    """The packages in a lock file."""
    pins = list(_PIN.finditer(text))
    ends = [*(pin.start() for pin in pins[1:]), len(text)]
    lock: Lock = {}
    for pin, end in zip(pins, ends, strict=True):
        lock.setdefault(_normal(pin[1]), {})[pin[2]] = _HASH.findall(text, pin.end(), end)
    return lock


def bill(environment: Bom, lock: Lock) -> Bom:
    """The bill of materials of the locked packages. Raises ValueError if an installed version is not locked."""
    kept = [_described(part, lock[_normal(part["name"])]) for part in environment["components"] if _is_in(lock, part)]
    root = environment["metadata"]["component"]["bom-ref"]
    names = {part["bom-ref"] for part in kept} | {root}
    return environment | {
        "components": kept,
        "dependencies": [_among(names, node) for node in environment["dependencies"] if node["ref"] in names],
    }


def _is_in(lock: Lock, part: Bom) -> bool:
    return _normal(part["name"]) in lock


def _described(part: Bom, versions: dict[str, list[str]]) -> Bom:
    if part["version"] not in versions:
        wanted = " or ".join(sorted(versions))
        raise ValueError(f"{part['name']} {part['version']} is installed, {wanted} is locked: make clean, make sbom")
    hashes = [{"name": "slackwater:sha256", "value": digest} for digest in versions[part["version"]]]
    return {key: value for key, value in part.items() if key != "externalReferences"} | {"properties": hashes}


def _among(names: Iterable[str], node: Bom) -> Bom:
    return node | {"dependsOn": sorted(set(node.get("dependsOn", [])) & set(names))}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def read_environment(python: str) -> Bom:
    """The packages that cyclonedx finds in the environment of this interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "environment.json"
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "environment", python, "--pyproject",
             str(ROOT / "pyproject.toml"), "--output-reproducible", "--of", "JSON", "-o", str(file)],
            check=True,
            capture_output=True,
        )  # fmt: skip
        found: Bom = json.loads(file.read_text())
        return found


def main() -> int:
    """Write the bill of materials and print its contents."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / ".slackwater" / "sbom.cdx.json")
    output: Path = parser.parse_args().output
    try:
        made = bill(read_environment(sys.executable), locked(LOCK.read_text()))
    except ValueError as error:
        sys.stderr.write(f"sbom: {error}\n")
        return 1
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    unlicensed = [part["name"] for part in made["components"] if not part.get("licenses")]
    without = f", {len(unlicensed)} without a declared licence: {unlicensed}" if unlicensed else ""
    sys.stdout.write(f"{output}: {len(made['components'])} packages{without}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
