"""The pytest plugin of this repository: fixtures for real servers and their twins (`-p slackwater.testing.fixtures`)."""

from __future__ import annotations

from slackwater.testing.nats_server import bus, nats_url

__all__ = ["bus", "nats_url"]
