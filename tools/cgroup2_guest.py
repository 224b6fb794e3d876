"""`make cgroup2`: runs a command in a virtual machine whose kernel has cgroup v2 only, on hosts that have v1.

QEMU boots the newest installed Debian kernel by software emulation, several times slower than this machine (`--accel
kvm` where nested virtualisation works). The guest sees this machine's files read-only by 9p below an overlay on a
scratch disk, so it runs this tree with its .venv; what it writes is discarded. Every controller is enabled in the root
cgroup. Times mean nothing under emulation.

    python tools/cgroup2_guest.py [--numa] [--memory 3G] [--minutes 40] [--accel tcg] [COMMAND...]

`--numa`: eight CPUs (two sockets of two cores with two threads) and two memory nodes, each with half of the memory.

Without a command it runs the tests that are marked `root`. The exit status is the command's; 0 with one line if QEMU, a
kernel or busybox is missing; 124 after `--minutes`.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "apt-get install --no-install-recommends qemu-system-x86 linux-image-amd64 busybox-static e2fsprogs"
QEMU, MKFS, BUSYBOX = "qemu-system-x86_64", "/sbin/mkfs.ext4", Path("/bin/busybox")
KERNELS, MODULES = Path("/boot"), Path("/lib/modules")
NEEDED = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4", "9pnet_virtio", "9p", "overlay")
"""Modules that Debian's kernel does not have built in; their dependencies are loaded first."""
SCRATCH_BYTES = 8 << 30
TESTS = ("tests/integration/agent", "tests/integration/demo/test_demo_kernel.py")
EXIT = re.compile(r"guest: exit (\d+)")
TIMED_OUT = 124
INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mount -t proc proc /proc
busybox --install -s /bin
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module || echo "guest: $module was not loaded"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro host /host
mount -t ext4 /dev/vda /scratch
mkdir -p /scratch/upper /scratch/work /scratch/tmp
chmod 1777 /scratch/tmp
mount -t overlay -o lowerdir=/host,upperdir=/scratch/upper,workdir=/scratch/work overlay /new
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts devpts /new/dev/pts
mount -t tmpfs shm /new/dev/shm
mount -t tmpfs run /new/run
mount -o bind /scratch/tmp /new/tmp
mount -t cgroup2 cgroup2 /new/sys/fs/cgroup
for controller in $(cat /new/sys/fs/cgroup/cgroup.controllers); do
  echo +$controller > /new/sys/fs/cgroup/cgroup.subtree_control
done
ip link set lo up
cp /command /new/run/command
chroot /new /bin/sh /run/command
echo "guest: exit $?"
sync
poweroff -f
"""


def missing() -> list[str]:
    """What this machine lacks to start a guest."""
    found = {
        QEMU: shutil.which(QEMU) is not None,
        f"{KERNELS}/vmlinuz-* with its modules": bool(releases()),
        str(BUSYBOX): BUSYBOX.exists(),
        MKFS: Path(MKFS).exists(),
    }
    return [name for name, there in found.items() if not there]


def releases() -> list[str]:
    """The installed kernels that have modules, oldest first."""
    names = [path.name.removeprefix("vmlinuz-") for path in KERNELS.glob("vmlinuz-*")]
    return sorted(
        (name for name in names if (MODULES / name / "modules.dep").exists()),
        key=lambda name: [int(part) for part in re.findall(r"\d+", name)],
    )


def load_order(dependencies: str, names: Iterable[str]) -> list[str]:
    """Paths of the modules and of all they depend on, in the order to load them. `dependencies` is modules.dep, which
    lists a module's dependencies nearest first. A name that is not listed is built in."""
    listed = dict(line.split(":", 1) for line in dependencies.splitlines())
    paths = {Path(path).name.split(".", 1)[0]: path for path in listed}
    order: dict[str, None] = {}
    for name in names:
        if (path := paths.get(name)) is not None:
            order |= dict.fromkeys([*reversed(listed[path].split()), path])
    return list(order)


def archive(files: Mapping[str, bytes], folders: Iterable[str]) -> bytes:
    """An initramfs (cpio, newc): folders, then executable files."""
    parts = [(name, b"", 0o040755) for name in folders] + [(name, data, 0o100755) for name, data in files.items()]
    return b"".join(
        _entry(number, name, data, mode) for number, (name, data, mode) in enumerate([*parts, ("TRAILER!!!", b"", 0)])
    )


def _entry(number: int, name: str, data: bytes, mode: int) -> bytes:
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + "".join(f"{value:08X}" for value in fields).encode() + name.encode() + b"\0"
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def initramfs(release: str, command: Sequence[str]) -> bytes:
    """The guest's first files: busybox, the modules, and the command to run in this tree."""
    modules = MODULES / release
    order = load_order((modules / "modules.dep").read_text(), NEEDED)
    environment = {
        "PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": "/tmp",  # noqa: S108
        "SLACKWATER_TEST_PATIENCE": "10",
    }  # fmt: skip
    lines = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    script = "\n".join([*lines, f"cd {shlex.quote(str(ROOT))}", f"exec {shlex.join(command)}", ""])
    files = {
        "init": INIT.encode(),
        "command": script.encode(),
        "bin/busybox": BUSYBOX.read_bytes(),
        **{f"modules/{place:02}.ko": (modules / path).read_bytes() for place, path in enumerate(order)},
    }
    return archive(files, ("bin", "dev", "host", "modules", "new", "proc", "scratch", "sys"))


def processors(memory: str, numa: bool) -> list[str]:
    """The options of QEMU for CPUs and memory. Raises ValueError for an amount that has no half in MiB."""
    if not numa:
        return ["-smp", "2", "-m", memory]
    match = re.fullmatch(r"([1-9][0-9]*)([MG])", memory)
    if match is None:
        raise ValueError(f"--memory: {memory!r} is not like 3G or 3072M, as --numa needs it")
    half = int(match[1]) * (1024 if match[2] == "G" else 1) // 2
    options = ["-smp", "8,sockets=2,cores=2,threads=2", "-m", f"{half * 2}M"]
    for node, cpus in enumerate(("0-3", "4-7")):
        options += ["-object", f"memory-backend-ram,id=memory{node},size={half}M"]
        options += ["-numa", f"node,nodeid={node},cpus={cpus},memdev=memory{node}"]
    return [*options, "-numa", "dist,src=0,dst=1,val=21", "-numa", "dist,src=1,dst=0,val=21"]


def machine(
    release: str, initrd: Path, scratch: Path, memory: str, accelerator: str, *, numa: bool = False
) -> list[str]:
    """The command line of QEMU."""
    return [
        QEMU, "-accel", accelerator, "-cpu", "max", *processors(memory, numa),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
        "-kernel", str(KERNELS / f"vmlinuz-{release}"), "-initrd", str(initrd),
        "-append", "console=ttyS0 quiet panic=-1 no_timer_check cgroup_no_v1=all",
        "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
        "-drive", f"file={scratch},format=raw,if=virtio,cache=unsafe",
    ]  # fmt: skip


def run(command: Sequence[str], memory: str, accelerator: str, minutes: float, *, numa: bool = False) -> int:
    """The exit status of the command in the guest, whose console is shown."""
    release = releases()[-1]
    with tempfile.TemporaryDirectory(prefix="cgroup2-") as folder:
        initrd, scratch = Path(folder) / "initrd", Path(folder) / "scratch"
        initrd.write_bytes(initramfs(release, command))
        with scratch.open("wb") as file:
            file.truncate(SCRATCH_BYTES)
        subprocess.run([MKFS, "-q", "-F", "-O", "^has_journal", str(scratch)], check=True)
        show(f"guest: Linux {release}, cgroup v2, {memory}: {shlex.join(command)}")
        line = machine(release, initrd, scratch, memory, accelerator, numa=numa)
        with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, errors="replace") as guest:
            timer = threading.Timer(minutes * 60, guest.kill)
            timer.start()
            try:
                status = follow(guest.stdout or ())
            finally:
                timer.cancel()
                guest.kill()
    if status is None:
        show(f"guest: ended without a status, or was stopped after {minutes:g} minutes")
    return TIMED_OUT if status is None else status


def follow(console: Iterable[str]) -> int | None:
    """Shows the console. Returns the status that the guest reported, or None."""
    status = None
    for text in console:
        if found := EXIT.search(text):
            status = int(found[1])
        else:
            show(text.rstrip("\r\n"))
    return status


def show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs a command in a virtual machine with cgroup v2 only.")
    parser.add_argument("--numa", action="store_true", help="eight CPUs in two sockets, and two memory nodes")
    parser.add_argument("--memory", default="3G", help="of the guest, as QEMU reads it")
    parser.add_argument("--accel", default="tcg,thread=multi", help="accelerator, as QEMU reads it")
    parser.add_argument("--minutes", type=float, default=40.0, help="after which the guest is stopped")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: pytest on the tests of real cgroups")
    given = parser.parse_args()
    if lacking := missing():
        show(f"cgroup2: skipped, because {' and '.join(lacking)} is missing: {PACKAGES}")
        return 0
    command = [one for one in given.command if one != "--"] or [
        ".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "root", "--timeout", "1200", *TESTS,
    ]  # fmt: skip
    return run(command, given.memory, given.accel, given.minutes, numa=given.numa)


if __name__ == "__main__":
    sys.exit(main())
