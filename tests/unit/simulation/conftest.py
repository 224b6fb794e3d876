"""A small Prometheus that is served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small_prometheus import SmallPrometheus, cluster, serving


@pytest.fixture
def small() -> Iterator[SmallPrometheus]:
    with serving(SmallPrometheus(cluster())) as served:
        yield served
