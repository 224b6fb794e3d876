"""Addresses reachable from this machine only."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Returns whether `host` is reachable from this machine only; of names, only `localhost`
    counts.
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
