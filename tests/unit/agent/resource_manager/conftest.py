"""A directory of plugins: the path of a unix socket has at most 107 characters."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def plugins_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="slackwater-") as folder:
        yield Path(folder)
