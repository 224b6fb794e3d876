"""A Kubernetes API server for the tests in here: the one that `make kubernetes` built, or a disposable cluster.

Tests that a server in memory can pass too run with both. Without a real one those with it are skipped; the reason says
how to have one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.kubernetes.build import this_build
from tests.kubernetes.control_plane import ControlPlane, running
from tests.kubernetes.drivers import ClusterDriver, MemoryDriver, RealDriver, real_driver

GIVEN = "SLACKWATER_TEST_KUBECONFIG"
"""The kubeconfig of a disposable cluster, as an administrator. Not KUBECONFIG, which may name a cluster in use."""
PROGRAMS = ("etcd", "kube-apiserver")
NEED = frozenset({"control_plane", "admin_kubeconfig", "real"})
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without an API server one skipped test stands for all that need one, so that the summary has one line."""
    if os.environ.get(GIVEN) or this_build().has(PROGRAMS):
        return
    left_out = [item for item in items if FOLDER in item.path.parents and _needs_a_server(item)]
    if left_out:
        counted = f"{len(left_out)} tests need a Kubernetes API server: `make kubernetes` builds one (once,"
        left_out[0].add_marker(pytest.mark.skip(reason=f"{counted} 11 minutes of a core), or set {GIVEN}"))
        items[:] = [item for item in items if item not in left_out[1:]]
        config.hook.pytest_deselected(items=left_out[1:])


def _needs_a_server(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "cluster" in callspec.params:
        return bool(callspec.params["cluster"] == "real")
    return bool(NEED & set(getattr(item, "fixturenames", ())))


@pytest.fixture(scope="session")
def control_plane(servers_home: Path) -> Iterator[ControlPlane]:
    """etcd and the API server of this session; its tests may kill and restart them."""
    made = this_build()
    if not made.has(PROGRAMS):
        pytest.skip("this test kills the API server: `make kubernetes` builds one")
    with running(made.folder, servers_home / "kubernetes") as plane:
        yield plane


@pytest.fixture(scope="session")
def admin_kubeconfig(request: pytest.FixtureRequest) -> Path:
    """Of an administrator of a disposable cluster."""
    if given := os.environ.get(GIVEN):
        return Path(given)
    plane: ControlPlane = request.getfixturevalue("control_plane")
    return plane.kubeconfig


@pytest.fixture
async def real(admin_kubeconfig: Path, tmp_path: Path) -> AsyncIterator[RealDriver]:
    """The real API server; `api` has exactly the rights of the service kubernetes."""
    async with real_driver(admin_kubeconfig, tmp_path) as driver:
        yield driver


@pytest.fixture(params=["memory", "real"])
def cluster(request: pytest.FixtureRequest) -> ClusterDriver:
    """A server in memory, then the real one."""
    if request.param == "memory":
        return MemoryDriver()
    driver: RealDriver = request.getfixturevalue("real")
    return driver
