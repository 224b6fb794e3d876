"""Fixtures of the agent's tests on real cgroups."""

from __future__ import annotations

from agent_machine import machine

__all__ = ["machine"]
