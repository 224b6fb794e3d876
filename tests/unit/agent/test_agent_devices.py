"""Disks and links: from /sys to what they did in a window and in the last interval; what is unknown is left out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.clock import EPOCH

from slackwater.agent.adapters.linux.devices import AT_MOST, LOOK_EVERY_READS, Devices, busy_ms
from slackwater.agent.domain.devices import disk_uses, link_uses
from slackwater.agent.domain.observation import Observation
from slackwater.agent.domain.samples import DiskSample, LinkSample, RawSample
from slackwater.model.devices import DiskUse, LinkUse


class Sys:
    """A /sys as far as disks and interfaces go."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def disk(self, name: str, busy: int, *, real: bool = True) -> None:
        place = self.root / "block" / name
        (place / "device" if real else place).mkdir(parents=True, exist_ok=True)
        (place / "stat").write_text(f"  100 0 800 5 200 0 1600 7 0 {busy} 12 0 0 0 0 0 0\n")

    def link(self, name: str, received: int, sent: int, speed: str | None = None, *, real: bool = True) -> None:
        place = self.root / "class/net" / name
        (place / "statistics").mkdir(parents=True, exist_ok=True)
        if real:
            (place / "device").mkdir(exist_ok=True)
        (place / "statistics/rx_bytes").write_text(f"{received}\n")
        (place / "statistics/tx_bytes").write_text(f"{sent}\n")
        if speed is not None:
            (place / "speed").write_text(speed)


def test_only_what_has_a_device_behind_it_is_read(tmp_path: Path) -> None:
    sys = Sys(tmp_path)
    sys.disk("vda", 1500)
    sys.disk("loop0", 9, real=False)
    sys.link("eth0", 10, 20, "1000\n")
    sys.link("eth1", 1, 2, "-1\n")
    sys.link("eth2", 1, 2)
    sys.link("veth1", 1, 2, real=False)
    devices = Devices(tmp_path)
    disks, links = devices.read()
    assert disks == (DiskSample("vda", 1500),)
    assert links == (LinkSample("eth0", 10, 20, 125_000_000), LinkSample("eth1", 1, 2), LinkSample("eth2", 1, 2))
    assert devices.open_descriptors() == 7
    sys.disk("vda", 1600)
    assert devices.read()[0] == (DiskSample("vda", 1600),)
    devices.close()
    assert devices.open_descriptors() == 0


def test_devices_that_come_and_go_are_noticed_after_a_minute_of_reads(tmp_path: Path) -> None:
    sys, devices = Sys(tmp_path), Devices(tmp_path)
    sys.disk("vda", 1)
    assert [one.name for one in devices.read()[0]] == ["vda"]
    sys.disk("vdb", 2)
    (tmp_path / "block/vda/device").rmdir()
    for _ in range(LOOK_EVERY_READS - 1):
        assert [one.name for one in devices.read()[0]] == ["vda"]
    assert [one.name for one in devices.read()[0]] == ["vdb"]
    assert devices.open_descriptors() == 1
    devices.close()


def test_a_hidden_sys_and_odd_files_give_nothing(tmp_path: Path) -> None:
    assert Devices(tmp_path / "none").read() == ((), ())
    assert busy_ms(None) is None
    assert busy_ms(b"1 2 3\n") is None


def test_a_shelf_of_disks_does_not_make_a_report_grow(tmp_path: Path) -> None:
    sys, devices = Sys(tmp_path), Devices(tmp_path)
    for number in range(AT_MOST + 5):
        sys.disk(f"sd{number:03}", 1)
    assert len(devices.read()[0]) == AT_MOST
    devices.close()


def sample(at: float, busy: int, received: int) -> RawSample:
    return RawSample(
        at,
        EPOCH + timedelta(seconds=at),
        disks=(DiskSample("vda", busy),),
        links=(LinkSample("eth0", received, 2 * received, 1000),),
    )


def test_a_window_has_the_average_and_the_instant_the_last_interval() -> None:
    watched = Observation()
    assert watched.add(sample(0, 0, 0), []).disks == ()
    watched.add(sample(1, 1000, 500), [])
    instant = watched.add(sample(4, 1300, 800), [])
    assert instant.disks == (DiskUse("vda", 0.1),)
    assert instant.links == (LinkUse("eth0", 100, 200, 1000),)
    window = watched.close([])
    assert window is not None
    assert (window.disks, window.links) == ((DiskUse("vda", 0.325),), (LinkUse("eth0", 200, 400, 1000),))
    watched.add(sample(5, 1300, 900), [])
    following = watched.close([])
    assert following is not None
    assert (following.disks, following.links) == ((DiskUse("vda", 0.0),), (LinkUse("eth0", 100, 200, 1000),))


counters = st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**6), max_size=3)


@given(counters, counters, st.floats(0.0, 100.0))
def test_a_share_is_never_beyond_one_and_what_is_unknown_is_left_out(
    before: dict[str, int], after: dict[str, int], seconds: float
) -> None:
    old = [DiskSample(name, busy) for name, busy in before.items()]
    new = [DiskSample(name, busy) for name, busy in after.items()]
    found = disk_uses(old, new, seconds)
    assert all(0 <= one.usage_ratio <= 1 for one in found)
    known = {name for name, busy in after.items() if name in before and busy >= before[name]}
    assert {one.name for one in found} == (known if seconds >= 0.001 else set())
    links = link_uses(
        [LinkSample(name, one, one) for name, one in before.items()],
        [LinkSample(name, one, one) for name, one in after.items()],
        seconds,
    )
    assert {one.name for one in links} == {one.name for one in found}
    assert all(one.received_per_second == one.sent_per_second >= 0 for one in links)
