"""Builds the control plane that tests/kubernetes run on, from Go modules, once per version: `make kubernetes`.

The programs are kept in a cache that all checkouts share: `SLACKWATER_KUBERNETES_CACHE`, or `slackwater/kubernetes` in
`$XDG_CACHE_HOME`. Go takes the modules from where its GOPROXY says. controlplane/go.mod names the versions; its digest
is part of the folder's name, so that a change of a version builds anew.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CACHE_VARIABLE = "SLACKWATER_KUBERNETES_CACHE"
MODULES = Path(__file__).parent / "controlplane"
NICE = 15
SIZES = "downloads 0.1 GB of modules, builds 0.5 GB of programs, in 11 minutes of one core; free disk needed: 4 GB"
COMPLETE = "complete"
PACKAGES: Mapping[str, str] = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
}
"""Those that tests need today first: with them the tests run, whether the rest is built or not."""
STAGES = (
    *(f"pod/fast/pod-{stage}" for stage in ("ready", "complete", "delete")),
    "node/fast/node-initialize",
)
"""What kwok does to pods and nodes, from its module."""


class NotBuilt(Exception):
    """The control plane cannot be built here; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Build:
    """One version of the control plane in the cache."""

    version: str
    folder: Path

    @property
    def is_complete(self) -> bool:
        return (self.folder / COMPLETE).is_file()

    def has(self, programs: Iterable[str]) -> bool:
        """Whether these programs are built; the others may still be."""
        return all((self.folder / program).is_file() for program in programs)


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder of all versions."""
    if chosen := environment.get(CACHE_VARIABLE):
        return Path(chosen)
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache"
    return Path(home) / "slackwater" / "kubernetes"


def this_build(environment: Mapping[str, str] = os.environ, modules: Path = MODULES) -> Build:
    """The version that go.mod names, built or not."""
    text = (modules / "go.mod").read_text()
    (version,) = set(re.findall(r"^\s+k8s\.io/kubernetes v(\S+)", text, re.MULTILINE))
    digest = hashlib.sha256(text.encode() + (modules / "go.sum").read_bytes()).hexdigest()[:12]
    return Build(version, cache_folder(environment) / f"{version}-{digest}")


def build(made: Build) -> None:
    """Build what is missing; a run that was interrupted goes on. Raises NotBuilt."""
    if (go := shutil.which("go")) is None:
        raise NotBuilt("go is not on PATH: install Go 1.26 or newer")
    made.folder.mkdir(parents=True, exist_ok=True)
    with _locked(made.folder.parent / "lock"):
        if made.is_complete:
            return
        _say(f"Kubernetes {made.version}: {SIZES}")
        _say(f"  into {made.folder}")
        with _step("modules"):
            _go(go, "mod", "download")
        for program, package in PACKAGES.items():
            flags = _stamp(made.version) if package.startswith("k8s.io/") else "-s -w"
            _program(go, made, program, package, flags)
        (made.folder / "stages.yaml").write_text(_stages(go))
        (made.folder / COMPLETE).touch()


def _program(go: str, made: Build, program: str, package: str, flags: str) -> None:
    target = made.folder / program
    if target.exists():
        return
    partial = target.with_suffix(".partial")
    with _step(program):
        _go(go, "build", "-ldflags", flags, "-o", str(partial), package)
        partial.rename(target)
    _say(f"    {target.stat().st_size / 1e6:.0f} MB")


def _stamp(version: str) -> str:
    major, minor, _ = version.split(".", 2)
    about = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{name}={value}" for name, value in about.items())])


def _stages(go: str) -> str:
    folder = Path(_go(go, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok").strip()) / "kustomize" / "stage"
    return "\n---\n".join((folder / f"{stage}.yaml").read_text() for stage in STAGES)


def _go(go: str, *arguments: str) -> str:
    environment = {
        **os.environ,
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "-mod=readonly -buildvcs=false -trimpath",
        "CGO_ENABLED": "0",
    }
    command = ["nice", "-n", str(NICE), go, *arguments]
    done = subprocess.run(command, cwd=MODULES, env=environment, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise NotBuilt(f"go {' '.join(arguments[:2])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


@contextmanager
def _step(title: str) -> Iterator[None]:
    began = time.monotonic()
    if sys.stderr.isatty():
        sys.stderr.write(f"  {title} …\r")
        sys.stderr.flush()
    yield
    _say(f"  {title}: {time.monotonic() - began:.0f} s")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    made = this_build()
    try:
        build(made)
    except NotBuilt as error:
        _say(f"kubernetes: {error}")
        return 1
    sys.stdout.write(f"{made.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
