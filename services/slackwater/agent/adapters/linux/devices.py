"""Disks and network interfaces of the machine: those behind which there is a device, not loops, bridges or pods' ends.

A file per disk and two per interface, read through kept descriptors: /proc/diskstats and /proc/net/dev list whatever
there is, which on a node with a hundred pods is mostly virtual.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from slackwater.agent.adapters.linux import meters
from slackwater.agent.adapters.linux.files import KeptFiles
from slackwater.agent.domain.samples import DiskSample, LinkSample

LOOK_EVERY_READS = 60
"""Devices come and go seldom: once a minute at one read a second."""
AT_MOST = 32
"""Disks, and interfaces, by name: a report is not to grow with a shelf of disks."""
_BUSY_MS = 9
"""Where /sys/block/NAME/stat has `io_ticks`."""


@dataclass(slots=True)
class Devices:
    """Keeps descriptors between reads."""

    sys: Path = Path("/sys")
    _files: KeptFiles = field(default_factory=KeptFiles)
    _disks: tuple[tuple[str, str], ...] = ()
    _links: tuple[tuple[str, str, str, int | None], ...] = ()
    _reads: int = 0

    def read(self) -> tuple[tuple[DiskSample, ...], tuple[LinkSample, ...]]:
        """What can be read; nothing where /sys is hidden."""
        if self._reads % LOOK_EVERY_READS == 0:
            self._discover()
        self._reads += 1
        return self._read_disks(), self._read_links()

    def close(self) -> None:
        self._files.close()

    def open_descriptors(self) -> int:
        return len(self._files)

    def _read_disks(self) -> tuple[DiskSample, ...]:
        busy = ((name, busy_ms(self._files.read(path))) for name, path in self._disks)
        return tuple(DiskSample(name, ms) for name, ms in busy if ms is not None)

    def _read_links(self) -> tuple[LinkSample, ...]:
        devices = []
        for name, received_path, sent_path, capacity in self._links:
            received = meters.whole_number(self._files.read(received_path))
            sent = meters.whole_number(self._files.read(sent_path))
            if received is not None and sent is not None:
                devices.append(LinkSample(name, received, sent, capacity))
        return tuple(devices)

    def _discover(self) -> None:
        disks = tuple((name, f"{self.sys}/block/{name}/stat") for name in _with_device(self.sys / "block"))
        links = tuple(
            (name, f"{place}/statistics/rx_bytes", f"{place}/statistics/tx_bytes", bytes_per_second(Path(place)))
            for name in _with_device(self.sys / "class/net")
            for place in (f"{self.sys}/class/net/{name}",)
        )
        gone = {path for _, path in self._disks} | {path for link in self._links for path in link[1:3]}
        gone -= {path for _, path in disks} | {path for link in links for path in link[1:3]}
        for path in gone:
            self._files.close_file(path)
        self._disks, self._links = disks, links


def busy_ms(stat: bytes | None) -> int | None:
    """`io_ticks` of a disk's stat file: milliseconds in which at least one request was under way."""
    fields = (stat or b"").split()
    return int(fields[_BUSY_MS]) if len(fields) > _BUSY_MS else None


def bytes_per_second(interface: Path) -> int | None:
    """From the link's speed in Mbit/s; the kernel reports an unknown speed as -1 or an error."""
    try:
        megabits = int((interface / "speed").read_text())
    except (OSError, ValueError):
        return None
    return megabits * 125_000 if megabits > 0 else None


def _with_device(directory: Path) -> list[str]:
    try:
        return sorted(place.name for place in directory.iterdir() if (place / "device").exists())[:AT_MOST]
    except OSError:
        return []
