"""The parts of the guest with cgroup v2 that need no QEMU: its modules, its first files, its status."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]

DEPENDENCIES = """\
kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
kernel/net/9p/9pnet.ko:
kernel/fs/netfs/netfs.ko:
kernel/net/9p/9pnet_virtio.ko.xz: kernel/drivers/virtio/virtio.ko kernel/net/9p/9pnet.ko
kernel/drivers/virtio/virtio.ko:
"""


@pytest.fixture
def guest() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cgroup2_guest", ROOT / "tools" / "cgroup2_guest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_module_is_loaded_after_all_that_it_needs_and_once(guest: ModuleType) -> None:
    order = guest.load_order(DEPENDENCIES, ("9p", "9pnet_virtio", "built_in"))
    assert sorted(order) == sorted(line.split(":")[0] for line in DEPENDENCIES.splitlines())
    for line in DEPENDENCIES.splitlines():
        module, needed = line.split(":")
        assert all(order.index(one) < order.index(module) for one in needed.split())


def test_the_archive_holds_its_folders_and_files(guest: ModuleType) -> None:
    packed = guest.archive({"init": b"#!/bin/sh\n", "bin/odd": b"12345"}, ("bin",))
    assert unpacked(packed) == {"bin": b"", "init": b"#!/bin/sh\n", "bin/odd": b"12345", "TRAILER!!!": b""}


def unpacked(data: bytes) -> dict[str, bytes]:
    """The files of a cpio archive in the form newc: see Documentation/driver-api/early-userspace of Linux."""
    files, place = {}, 0
    while place < len(data):
        assert data[place : place + 6] == b"070701"
        fields = [int(data[place + 6 + 8 * number : place + 14 + 8 * number], 16) for number in range(13)]
        size, name_size = fields[6], fields[11]
        name_end = place + 110 + name_size
        begin = name_end + -name_end % 4
        files[data[place + 110 : name_end - 1].decode()] = data[begin : begin + size]
        place = begin + size + -(begin + size) % 4
    return files


def test_the_status_of_the_guest_is_its_last_word(guest: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert guest.follow(["one\r\n", "guest: exit 5\r\n", "[ 9.1] reboot: Power down\r\n"]) == 5
    assert guest.follow(["panic\n"]) is None
    assert capsys.readouterr().out == "one\n[ 9.1] reboot: Power down\npanic\n"


def test_what_is_missing_is_said_with_how_to_have_it(
    guest: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(guest, "KERNELS", tmp_path)
    monkeypatch.setattr("sys.argv", ["cgroup2_guest.py"])
    assert guest.main() == 0
    said = capsys.readouterr().out
    assert f"skipped, because {tmp_path}/vmlinuz-* with its modules" in said or f"and {tmp_path}/vmlinuz-*" in said
    assert "apt-get install --no-install-recommends qemu-system-x86" in said


def test_a_guest_with_numa_has_two_nodes_with_half_of_the_memory_each(guest: ModuleType) -> None:
    line = guest.machine("6.12", Path("initrd"), Path("scratch"), "3G", "tcg", numa=True)
    assert "8,sockets=2,cores=2,threads=2" in line
    assert [part for part in line if part.startswith("memory-backend")] == [
        "memory-backend-ram,id=memory0,size=1536M",
        "memory-backend-ram,id=memory1,size=1536M",
    ]
    assert [part for part in line if part.startswith(("node,", "dist,"))] == [
        "node,nodeid=0,cpus=0-3,memdev=memory0",
        "node,nodeid=1,cpus=4-7,memdev=memory1",
        "dist,src=0,dst=1,val=21",
        "dist,src=1,dst=0,val=21",
    ]
    assert line[line.index("-m") + 1] == "3072M"
    assert "-numa" not in guest.machine("6.12", Path("initrd"), Path("scratch"), "3G", "tcg")
    with pytest.raises(ValueError, match="'3 GB' is not like 3G"):
        guest.processors("3 GB", numa=True)
