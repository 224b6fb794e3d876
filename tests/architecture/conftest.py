"""The parsed tree is shared by all tests in here, and given up after them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from sources import forget_sources


@pytest.fixture(scope="package", autouse=True)
def parsed_tree() -> Iterator[None]:
    """3.4 million objects, which every full pass of the collector would look at in all tests that follow."""
    yield
    forget_sources()
    gc.collect()
