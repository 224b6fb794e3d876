"""The pod registry of plain Linux: one small file per managed command, written by `slackwater exec`.

`<agent dir>/pods/<uid>.json` is written atomically before the command starts and removed after its cgroup is empty.
Its supervisor (the `slackwater exec` process) is named with its start time, so that a reused pid is never taken for it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slackwater.agent.adapters.linux.processes import Process
from slackwater.model.json_text import parse_json_text
from slackwater.model.pods import Pod
from slackwater.model.quantities import Resources
from slackwater.model.tiers import QoSClass, Tier
from slackwater.runtime.owned_files import PRIVATE_FOLDER, open_owned, write_atomically

_OURS_TO_BLAME = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_OOM_KILLS = "oom-kills"
_MOST_OOM_KILLS_BYTES = 1 << 20
_SUFFIXES = (".json", ".pending")
_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A pod, its supervisor, and the instance whose cgroups it is in."""

    pod: Pod
    supervisor: Process
    instance: str


def to_json(entry: Entry) -> dict[str, Any]:
    pod = entry.pod
    return {
        "uid": pod.uid, "name": pod.name, "namespace": pod.namespace, "workload": pod.workload,
        "tier": pod.tier.value, "qos": pod.qos.value, "priority": pod.priority,
        "cpu_milli": pod.request.cpu_milli, "memory_bytes": pod.request.memory_bytes,
        "started_at": pod.started_at.isoformat(), "labels": pod.labels,
        "supervisor": {"pid": entry.supervisor.pid, "started_ticks": entry.supervisor.started_ticks},
        "instance": entry.instance,
    }  # fmt: skip


def from_json(text: str) -> Entry:
    """Raises ValueError or KeyError on anything that `to_json` did not write."""
    raw: Mapping[str, Any] = parse_json_text(text)
    if not _UID.fullmatch(raw["uid"]):
        raise ValueError(f"uid {raw['uid']!r} is not a plain name")
    pod = Pod(
        uid=raw["uid"],
        name=raw["name"],
        namespace=raw["namespace"],
        workload=raw["workload"],
        tier=Tier(raw["tier"]),
        qos=QoSClass(raw["qos"]),
        priority=int(raw["priority"]),
        request=Resources(int(raw["cpu_milli"]), int(raw["memory_bytes"])),
        started_at=datetime.fromisoformat(raw["started_at"]),
        labels={str(key): str(value) for key, value in raw["labels"].items()},
    )
    supervisor = Process(int(raw["supervisor"]["pid"]), int(raw["supervisor"]["started_ticks"]))
    return Entry(pod, supervisor, raw["instance"])


@dataclass(slots=True)
class PodRegistry:
    """Reads and writes the entries; reading is one stat per tick while nothing changes."""

    directory: Path
    _seen: tuple[int, int] = (0, 0)
    _entries: dict[str, Entry] = field(default_factory=dict)

    def reserve(self, entry: Entry) -> None:
        """Announce a pod that is being made: its cgroups are no strays, and are not measured or written yet."""
        self._put(entry, ".pending")

    def add(self, entry: Entry) -> None:
        """The pod is complete from now on."""
        self._put(entry, ".json")
        (self.directory / f"{entry.pod.uid}.pending").unlink(missing_ok=True)

    def remove(self, uid: str) -> None:
        for suffix in _SUFFIXES:
            (self.directory / f"{uid}{suffix}").unlink(missing_ok=True)
        self._seen = (0, 0)

    def note_oom_kills(self, pod: Pod, processes: int) -> None:
        """Append a line to `oom-kills` beside the pods: which pod ended with how many processes killed by the kernel.
        It outlives the pod's entry; a disk that refuses it changes nothing else."""
        line = {"uid": pod.uid, "name": pod.name, "tier": pod.tier.value, "processes": processes}
        path, flags = self.directory.parent / _OOM_KILLS, os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with suppress(OSError), os.fdopen(open_owned(path, flags), "a", encoding="utf-8") as file:
            if file.tell() < _MOST_OOM_KILLS_BYTES:
                file.write(json.dumps({**line, "at": datetime.now(UTC).isoformat()}) + "\n")

    def pending(self) -> dict[str, Entry]:
        """Pods that are being made, or whose maker died over it."""
        try:
            return self._read(".pending", {})
        except OSError:
            return {}

    def names(self) -> frozenset[str]:
        """The uids of all files, including unreadable ones: each stands for a pod."""
        try:
            return frozenset(file.stem for file in self.directory.iterdir() if file.suffix in _SUFFIXES)
        except FileNotFoundError:
            return frozenset()

    def _put(self, entry: Entry, suffix: str) -> None:
        self.directory.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        write_atomically(self.directory / f"{entry.pod.uid}{suffix}", json.dumps(to_json(entry)))

    def entries(self) -> dict[str, Entry]:
        """All readable entries by uid, in uid order. A broken file is no pod; it is left for a person to look at."""
        try:
            status = self.directory.stat()
        except FileNotFoundError:
            return {}
        seen = (status.st_mtime_ns, status.st_ino)
        if seen != self._seen:
            try:
                self._entries = self._read(".json", self._entries)
            except OSError:  # no descriptor is free, say: what is known counts until the next look
                return self._entries
            # Two changes within one tick of the file system's clock look alike: trust only a directory at rest.
            self._seen = seen if _at_rest(status.st_mtime_ns) else (0, 0)
        return self._entries

    def _read(self, suffix: str, known: Mapping[str, Entry]) -> dict[str, Entry]:
        """Raises OSError where nothing can be opened now."""
        entries: dict[str, Entry] = {}
        for file in sorted(file for file in self.directory.iterdir() if file.suffix == suffix):
            if file.stem in known:
                entries[file.stem] = known[file.stem]  # entries are written once and never changed
                continue
            try:
                entry = from_json(file.read_text())
            except OSError as error:
                if error.errno in _OURS_TO_BLAME:
                    raise
                continue
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            if entry.pod.uid == file.stem:
                entries[file.stem] = entry
        return entries


def _at_rest(mtime_ns: int) -> bool:
    return time.time_ns() - mtime_ns > 50_000_000
