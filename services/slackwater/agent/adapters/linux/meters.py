"""Numbers out of kernel files: parsers for what /proc and cgroup files print. Unknown is None, never zero."""

from __future__ import annotations

import os

from slackwater.agent.adapters.linux.files import KeptFiles
from slackwater.agent.ports import PsiTotals

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_NANOS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def whole_number(text: bytes | None) -> int | None:
    """A file that holds one integer."""
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def flat(text: bytes | None, *names: bytes) -> list[int | None]:
    """Values of a `name value` file, in the order asked; a missing name is None."""
    values: dict[bytes, int] = {}
    for line in (text or b"").splitlines():
        name, _, value = line.partition(b" ")
        if name in names:
            values[name] = int(value)
    return [values.get(name) for name in names]


def pressure_total_us(text: bytes | None) -> int | None:
    """The `total=` of the `some` line of a PSI file."""
    if text is None or not text.startswith(b"some"):
        return None
    return int(text[text.index(b"total=") + 6 : text.index(b"\n")])


def psi(files: KeptFiles, cpu: str, memory: str, io: str) -> PsiTotals:
    """The three pressure files of one place."""
    return PsiTotals(
        pressure_total_us(files.read(cpu)), pressure_total_us(files.read(memory)), pressure_total_us(files.read(io))
    )


def busy_ns(stat: bytes | None) -> int | None:
    """Time in which no CPU had anything left to give: user, nice, system, irq, softirq and steal of /proc/stat.

    What the host took (steal) is used outside of pods (decision 0002). Not idle or iowait; guest time is
    inside user already.
    """
    if stat is None or not stat.startswith(b"cpu "):
        return None
    fields = [int(word) for word in stat[: stat.index(b"\n")].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) * _NANOS_PER_TICK


def memory_in_use(meminfo: bytes | None) -> int | None:
    """MemTotal minus MemAvailable of /proc/meminfo, in bytes."""
    values: dict[bytes, int] = {}
    for line in (meminfo or b"").splitlines()[:8]:
        name, _, rest = line.partition(b":")
        if name in (b"MemTotal", b"MemAvailable"):
            values[name] = int(rest.split()[0]) * 1024
    if len(values) != 2:
        return None
    return max(0, values[b"MemTotal"] - values[b"MemAvailable"])


def free_memory(meminfo: bytes | None) -> int | None:
    """MemFree of /proc/meminfo, in bytes."""
    for line in (meminfo or b"").splitlines()[:8]:
        name, _, rest = line.partition(b":")
        if name == b"MemFree":
            return int(rest.split()[0]) * 1024
    return None


def kept_free_bytes(zoneinfo: bytes | None) -> int:
    """What the kernel keeps free: it reclaims page cache up to the high watermark of every zone (/proc/zoneinfo)."""
    words = (line.split() for line in (zoneinfo or b"").splitlines())
    return _PAGE_BYTES * sum(int(word[1]) for word in words if len(word) == 2 and word[0] == b"high")


def memory_parts(stat: bytes | None, prefix: bytes) -> tuple[int | None, int | None]:
    """What a pod holds that cannot be dropped, and its page cache; the text is read once for both."""
    names = (b"inactive_anon", b"active_anon", b"unevictable", b"inactive_file", b"active_file")
    anonymous, active, locked, *cache = flat(stat, *(prefix + name for name in names))
    held = None if anonymous is None or active is None or locked is None else anonymous + active + locked
    inactive_file, active_file = cache
    return held, None if inactive_file is None or active_file is None else inactive_file + active_file


def refault_bytes(stat: bytes | None, prefix: bytes) -> int | None:
    """Cumulative bytes of file pages that were read again after the kernel had dropped them."""
    [pages] = flat(stat, prefix + b"workingset_refault_file")
    return None if pages is None else pages * _PAGE_BYTES


def anonymous_bytes(stat: bytes | None, prefix: bytes) -> int | None:
    """What a pod holds that cannot be dropped: inactive_anon + active_anon + unevictable of memory.stat."""
    parts = flat(stat, prefix + b"inactive_anon", prefix + b"active_anon", prefix + b"unevictable")
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def tree_memory(used: bytes | None, stat: bytes | None, prefix: bytes) -> int | None:
    """What a cgroup with its children holds that cannot be dropped, kernel memory included: usage without page cache,
    as MemTotal minus MemAvailable is of a machine."""
    whole, cache = whole_number(used), cache_bytes(stat, prefix)
    return None if whole is None or cache is None else max(0, whole - cache)


def cache_bytes(stat: bytes | None, prefix: bytes) -> int | None:
    """The page cache that the kernel can drop: inactive_file + active_file of memory.stat."""
    inactive, active = flat(stat, prefix + b"inactive_file", prefix + b"active_file")
    return None if inactive is None or active is None else inactive + active
