"""Our pytest plugin: fixtures for real servers and their twins (`-p slackwater.testing.fixtures`)."""

from __future__ import annotations
