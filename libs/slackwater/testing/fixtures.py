"""The pytest plugin of this repository: fixtures for real servers and their twins (`-p slackwater.testing.fixtures`)."""

from __future__ import annotations
