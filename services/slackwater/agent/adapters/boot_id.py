"""Which boot of the kernel this is."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = BOOT_ID) -> str:
    """A random UUID that the kernel draws when it boots; empty where it cannot be read (no Linux, no procfs)."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
