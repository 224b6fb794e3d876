"""How a kubelet and the container runtimes name cgroups: of pods for both cgroup drivers, of containers by runtime.

cgroupfs: `kubepods/burstable/pod<uid>/<container>`; systemd: slices whose names hold those of their parents, as
`kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid, - as _>.slice/cri-containerd-<container>.scope`.
Guaranteed pods lie directly below kubepods. Source: kubelet pkg/kubelet/cm (cgroup_manager_linux.go, types.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

KUBEPODS: Final = "kubepods"
QOS_CGROUPS: Final = ("", "burstable", "besteffort")
"""Below kubepods; Guaranteed pods have none of their own."""
SCOPES: Final = {"containerd": "cri-containerd", "cri-o": "crio", "docker": "docker"}
"""By the scheme of a container's id, the prefix of its systemd scope."""
_POD_PART: Final = re.compile(r"(?:[a-z0-9_]+-)*pod[0-9a-f_]{8,}\.slice|pod[0-9a-f-]{8,}")
_UID: Final = re.compile(r"[0-9a-f][0-9a-f-]{7,63}")
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{12,64}")


def cgroupfs_path(names: Sequence[str]) -> str:
    """The path of a cgroup by the driver cgroupfs; its names from the root of the tree on."""
    return "/".join(names)


def systemd_path(names: Sequence[str]) -> str:
    """The same by the driver systemd. A `-` within a name becomes `_`, because `-` separates the names in a slice."""
    escaped = [name.replace("-", "_") for name in names]
    return "/".join("-".join(escaped[: depth + 1]) + ".slice" for depth in range(len(escaped)))


def kubepods_cgroups(root: Sequence[str] = ()) -> tuple[str, str]:
    """The cgroup of all pods by both drivers; `root` are the names of the kubelet's --cgroup-root."""
    return cgroupfs_path([*root, KUBEPODS]), systemd_path([*root, KUBEPODS])


def pod_cgroups(uid: str, root: Sequence[str] = ()) -> Iterator[str]:
    """Where a pod may lie: every QoS class by both drivers. None for a uid that no kubelet would name a cgroup by."""
    if not _UID.fullmatch(uid):
        return
    for qos in QOS_CGROUPS:
        names = [*root, KUBEPODS, *([qos] if qos else ()), f"pod{uid}"]
        yield systemd_path(names)
        yield cgroupfs_path(names)


def container_cgroups(runtime: str, container_id: str) -> tuple[str, ...]:
    """The names that a container's cgroup may have below its pod's: a scope of systemd, or its plain id, which CRI-O
    prefixes. None for an id that is no plain number."""
    if not _CONTAINER_ID.fullmatch(container_id):
        return ()
    prefix = SCOPES.get(runtime)
    scopes = (f"{prefix}-{container_id}.scope", f"{prefix}-{container_id}") if prefix else ()
    return (*scopes, container_id)


def is_below_a_pod(path: str) -> bool:
    """Whether a path leads into the cgroup of a pod: all above belongs to the kubelet, which writes it every minute."""
    return any(_POD_PART.fullmatch(part) for part in path.split("/")[:-1])
