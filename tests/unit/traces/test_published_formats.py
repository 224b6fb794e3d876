"""Traces as they are published: each format from small files that follow the published schema."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import Samples, grid
from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.readers import formats
from slackwater.traces.readers.formats import detected, format_names, read_trace
from slackwater.traces.trace import Trace

CPU, MEMORY = TraceResource.CPU, TraceResource.MEMORY
HEADER = (
    "Timestamp [ms];\tCPU cores;\tCPU capacity provisioned [MHZ];\tCPU usage [MHZ];\tCPU usage [%];\t"
    "Memory capacity provisioned [KB];\tMemory usage [KB];\tDisk read throughput [KB/s];\t"
    "Disk write throughput [KB/s];\tNetwork received throughput [KB/s];\tNetwork transmitted throughput [KB/s]"
)


def bitbrains(folder: Path) -> Path:
    """Two VMs in July, one of them also in August."""
    for month, begin in (("2013-7", 1_372_629_600), ("2013-8", 1_372_629_600 + 600)):
        (folder / month).mkdir(parents=True)
        for vm in (1, 20) if month == "2013-7" else (20,):
            rows = [
                f"{begin + 300 * n};\t2;\t5200.0;\t{vm * 10 + n};\t1.5;\t2097152.0;\t1024.5;\t0;\t0;\t0;\t0"
                for n in (0, 1)
            ]
            (folder / month / f"{vm}.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return folder


def test_bitbrains_as_published_is_a_folder_of_numbered_files_by_month(tmp_path: Path) -> None:
    trace = read_trace(bitbrains(tmp_path / "rnd"), None, CPU)
    assert trace.names == ["vm-1", "vm-20"]
    assert trace.start_seconds == 1_372_629_600
    assert trace.usage.T.tolist() == [[10, 11, 0, 0], [200, 201, 200, 201]]
    assert trace.limit[0].tolist() == [5200, 5200]
    memory = read_trace(tmp_path / "rnd", "bitbrains", MEMORY)
    assert memory.usage[0, 0] == 1024.5 * 1024
    assert memory.limit[0, 0] == 2 * 2**30


def planetlab(folder: Path) -> Path:
    for day in ("20110303", "20110306"):
        (folder / day).mkdir(parents=True)
        for host in ("a_host", "b_host") if day == "20110303" else ("b_host",):
            (folder / day / host).write_text("\n".join(["7"] * 287 + ["100"]) + "\n")
    return folder


def test_planetlab_days_follow_by_the_names_of_their_folders(tmp_path: Path) -> None:
    trace = read_trace(planetlab(tmp_path / "planetlab"), None, CPU)
    assert (trace.names, trace.cells) == (["a_host", "b_host"], 4 * 288)
    assert trace.usage[[0, 287], 1].tolist() == [70, 1000]
    assert not trace.present[288 : 3 * 288, 1].any()
    assert trace.present[3 * 288 :, 1].all()
    (tmp_path / "planetlab" / "20110306" / ".DS_Store").write_bytes(b"\0\1")
    one_day = read_trace(tmp_path / "planetlab" / "20110306", None, CPU)
    assert (one_day.cells, one_day.start_seconds) == (288, 1_299_369_600)


PUBLISHED = {
    "20110303": (
        "147-179_surfsnel_dsl_internl_net_tsinghua_xyz",
        "planet1_jaist_ac_jp_nyu_d",
        "planetlab1_nrl_dcs_qmul_ac_uk_ rnp_dcc_ufjf",
        "planetlab2_koganei_wide_ad_jp_root",
        "planetlab2_koganei_wide_ad_jp_uw_oneswarm",
    ),
    "20110322": ("planet1_cs_rit_edu_uw_oneswarm", "planet1_jaist_ac_jp_nyu_d"),
}
"""Names as in CloudSim's `workload/planetlab`: host and slice, some with a space, and days that do not follow another.
A file has 288 lines of one whole number and ends with a line feed; README.md and join.sh are in forks of the folder."""


def test_the_folder_that_comes_with_cloudsim_is_read_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "planetlab"
    for day, names in PUBLISHED.items():
        (folder / day).mkdir(parents=True)
        for number, name in enumerate(names):
            lines = [31, 25, 35, 34, *[number] * 283, 0]
            (folder / day / name).write_text("".join(f"{percent}\n" for percent in lines))
    (folder / "README.md").write_text("# Traces\n")
    (folder / "join.sh").write_text("#!/bin/sh\n")
    trace = read_trace(folder, None, CPU)
    assert set(trace.names) == {name for names in PUBLISHED.values() for name in names}
    assert (trace.start_seconds, trace.cells) == (1_299_110_400, 20 * 288)
    moved = trace.names.index("planet1_jaist_ac_jp_nyu_d")
    assert trace.usage[:5, moved].tolist() == [310, 250, 350, 340, 10]
    last_day = trace.usage[19 * 288 :, moved]
    assert (last_day[4], last_day[287]) == (10, 0)
    assert np.flatnonzero(trace.present[:, moved]).tolist() == [*range(288), *range(19 * 288, 20 * 288)]
    spaced = trace.names.index("planetlab1_nrl_dcs_qmul_ac_uk_ rnp_dcc_ufjf")
    assert np.flatnonzero(trace.present[:, spaced]).tolist() == list(range(288))


def azure(folder: Path, cores: str = "4") -> Path:
    folder.mkdir()
    rows = [
        f"{vm},sub,{deployed},0,2592000,99,10,50,Delay-insensitive,{cores},>64"
        for vm, deployed in (("v/+A=", "d1"), ("vB", "d1"))
    ]
    (folder / "vmtable.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    for number, at in ((1, 0), (2, 300)):
        text = f"{at},v/+A=,1.5,90,50\n{at},vB,0,10,25.0\n"
        (folder / f"vm_cpu_readings-file-{number}-of-195.csv.gz").write_bytes(gzip.compress(text.encode()))
    return folder


@pytest.mark.parametrize(("cores", "milli"), [("4", 4000), ("30", 30_000), (">24", 30_000)])
def test_azure_readings_count_by_the_cores_of_the_vm_table(tmp_path: Path, cores: str, milli: int) -> None:
    trace = read_trace(azure(tmp_path / "azure", cores), None, CPU)
    assert trace.names == ["v/+A=", "vB"]
    assert trace.workload.tolist() == [0, 0]
    assert trace.usage.T.tolist() == [[milli / 2] * 2, [milli / 4] * 2]
    with pytest.raises(InvalidInput, match="have no memory use; expected cpu"):
        read_trace(tmp_path / "azure", "azure", MEMORY)


@pytest.mark.parametrize("named", ["", "trace_data", "trace_data/vm_cpu_readings"])
def test_azure_is_read_in_the_folders_of_its_download_links(tmp_path: Path, named: str) -> None:
    folder = tmp_path / "trace_data"
    azure(folder).joinpath("vm_cpu_readings").mkdir()
    (folder / "vmtable").mkdir()
    for file in sorted(folder.glob("*.csv.gz")):
        file.rename(folder / file.name.partition("-file-")[0].removesuffix(".csv.gz") / file.name)
    assert read_trace(tmp_path / named, None, CPU).names == ["v/+A=", "vB"]


def packed(path: Path, text: str) -> Path:
    content = text.encode()
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(path.name.removesuffix(".tar.gz") + ".csv")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return path


def test_alibaba_machines_are_read_from_the_archive_as_published(tmp_path: Path) -> None:
    path = packed(tmp_path / "machine_usage.tar.gz", "m_1,0,50,90,,,1.5,2.5,101\nm_1,300,-1,101,0,0,0,0,0\n")
    trace = read_trace(path, None, CPU)
    assert (trace.whole_machines, trace.usage.tolist()) == (True, [[48_000.0]])
    assert trace.repairs.unusable == 1


def containers(folder: Path) -> Path:
    folder.mkdir()
    packed(
        folder / "container_meta.tar.gz", "c_1,m_9,0,app_3,started,400,800,1.56\nc_2,m_9,0,app_3,started,800,800,3.13\n"
    )
    packed(
        folder / "container_usage.tar.gz",
        "c_2,m_9,10,50,20,1.1,0.2,1,0.3,0.3,5\nc_1,m_9,10,25,100,,,,0.3,0.3,5\nc_1,m_9,20,75,100,,,,0.3,0.3,5\n",
    )
    return folder


def test_alibaba_containers_count_by_their_requests_and_deploy_units(tmp_path: Path) -> None:
    trace = read_trace(containers(tmp_path / "alibaba"), None, CPU)
    assert (trace.names, trace.workload.tolist()) == (["c_2", "c_1"], [0, 0])
    assert trace.usage.tolist() == [[4000, 2000]]
    assert trace.limit.tolist() == [[8000, 4000]]
    memory = read_trace(tmp_path / "alibaba", "alibaba2018-containers", MEMORY)
    assert memory.limit[0, 1] == pytest.approx(0.0156 * 512 * 2**30)


USAGES: list[dict[str, object]] = [
    {
        "start_time": "600000000",
        "collection_id": "7",
        "instance_index": "0",
        "average_usage": {"cpus": 0.25, "memory": 0.5},
    },
    {"start_time": 900000000, "collection_id": 7, "instance_index": 0, "average_usage": {"cpus": 0.5, "memory": None}},
    {"start_time": 900000000, "collection_id": 8, "instance_index": 1, "average_usage": {"cpus": 0.5}},
]
EVENTS = [
    {"time": "0", "collection_id": "7", "instance_index": "0", "resource_request": {"cpus": 0.1, "memory": 0.5}},
    {"time": "1", "collection_id": "7", "instance_index": "0", "resource_request": {"cpus": 0.5, "memory": 0.5}},
    {"time": "1", "collection_id": "8", "instance_index": "1", "resource_request": None},
]


def test_google_2019_json_lines_with_numbers_as_texts(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in USAGES)
    (tmp_path / "instance_usage-000000000000.json.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "instance_events.json").write_text("".join(json.dumps(row) + "\n" for row in EVENTS))
    trace = read_trace(tmp_path, None, CPU)
    assert trace.names == ["7-0"]
    assert trace.start_seconds == 1_556_694_000
    assert trace.usage.tolist() == [[16_000], [32_000]]
    assert trace.limit.tolist() == [[32_000], [32_000]]
    assert (trace.repairs.unusable, trace.repairs.empty_series) == (1, 1)


def test_google_2019_leaves_out_a_usage_that_was_not_measured(tmp_path: Path) -> None:
    rows = [USAGES[0], {key: value for key, value in USAGES[1].items() if key != "average_usage"}]
    (tmp_path / "instance_usage.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "instance_events.json").write_text(json.dumps(EVENTS[1]) + "\n")
    trace = read_trace(tmp_path, None, CPU)
    assert (trace.usage.tolist(), trace.repairs.unusable) == ([[16_000]], 1)


@pytest.mark.parametrize("separator", [".", "_"])
def test_google_2019_as_flat_csv(tmp_path: Path, separator: str) -> None:
    names = f"start_time,collection_id,instance_index,average_usage{separator}cpus,average_usage{separator}memory"
    (tmp_path / "instance_usage.csv").write_text(f"{names}\n600000000,7,0,0.25,\n")
    names = f"time,collection_id,instance_index,resource_request{separator}cpus,resource_request{separator}memory"
    (tmp_path / "instance_events.csv").write_text(f"{names}\n0,7,0,0.5,0.5\n")
    assert read_trace(tmp_path, None, CPU).usage.tolist() == [[16_000]]


def wrong(tmp_path: Path, form: str) -> Path:
    """A trace of this format whose second data line is wrong."""
    path = tmp_path / "trace"
    if form == "bitbrains":
        bitbrains(path)
        (path / "2013-7" / "1.csv").write_text(f"{HEADER}\n1;2;3;4;5;6;7;8;9;10;11\n2;2;x;4;5;6;7;8;9;10;11\n")
    elif form == "planetlab":
        planetlab(path)
        (path / "20110303" / "a_host").write_text("7\n7\n7.5\n")
    elif form == "azure":
        azure(path)
        (path / "vm_cpu_readings-file-2-of-195.csv.gz").write_bytes(
            gzip.compress(b"0,vB,1,2,3\n1,vB,1,2,3\n2,vB,1,2,x\n")
        )
    elif form == "alibaba2018":
        path.mkdir()
        (path / "machine_usage.csv").write_text("m_1,0,1,2\nm_1,1,1,2\nm_1,2,x,2\n")
    elif form == "alibaba2018-containers":
        containers(path)
        packed(path / "container_usage.tar.gz", "c_1,m,0,1,2\nc_1,m,1,1,2\nc_1,m,2,x,2\n")
    else:
        path.mkdir()
        rows = [json.dumps(USAGES[0])] * 2 + ['{"start_time": "x"}']
        (path / "instance_usage.json").write_text("\n".join(rows))
        (path / "instance_events.json").write_text(json.dumps(EVENTS[0]))
    return path


@pytest.mark.parametrize(
    "form", ["bitbrains", "planetlab", "azure", "alibaba2018", "alibaba2018-containers", "google2019"]
)
def test_a_wrong_line_is_named_with_what_is_expected_and_what_was_found(tmp_path: Path, form: str) -> None:
    with pytest.raises(InvalidInput, match=r"line 3.*expected .*; found.*(x|7\.5|start_time)"):
        read_trace(wrong(tmp_path, form), None, CPU)


def test_what_belongs_beside_the_usage_is_named_when_it_is_missing(tmp_path: Path) -> None:
    (azure(tmp_path / "azure") / "vmtable.csv.gz").unlink()
    with pytest.raises(InvalidInput, match=r"expected vmtable\.csv\(\.gz\) beside vm_cpu_readings-file-1-of-195"):
        read_trace(tmp_path / "azure", None, CPU)
    (containers(tmp_path / "alibaba") / "container_meta.tar.gz").unlink()
    with pytest.raises(InvalidInput, match="expected container_meta"):
        read_trace(tmp_path / "alibaba", None, CPU)


def test_a_path_of_no_known_format_is_answered_with_all_formats(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk, eggs\n")
    with pytest.raises(InvalidInput) as caught:
        read_trace(tmp_path, None, CPU)
    assert "found notes.txt beginning with 'milk, eggs'" in caught.value.message
    assert all(f"{name}: " in caught.value.message for name in TraceFormat)


def test_an_archive_that_is_not_unpacked_is_named_as_such(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "rnd.zip", "w") as archive:
        archive.writestr("rnd/2013-7/1.csv", HEADER)
    with pytest.raises(InvalidInput, match="found a zip archive: unpack it, and give its folder; expected"):
        read_trace(tmp_path / "rnd.zip", None, CPU)


def test_a_folder_of_two_formats_needs_a_choice(tmp_path: Path) -> None:
    azure(tmp_path / "azure")
    (tmp_path / "azure" / "machine_usage.csv").write_text("m_1,0,20,90\n")
    with pytest.raises(InvalidInput, match="may be azure or alibaba2018; choose one with --format"):
        read_trace(tmp_path / "azure", None, CPU)


def test_a_misspelt_format_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="did you mean bitbrains"):
        read_trace(tmp_path, "bitbrain", CPU)


class _Ones:
    """A format of another distribution."""

    FILES = "one.txt"

    def recognises(self, path: Path) -> bool:
        return path.name == "one.txt"

    def read(self, path: Path, resource: TraceResource) -> Trace:
        one = np.ones(1)
        return grid(
            Samples(np.zeros(1, np.intp), np.zeros(1, np.int64), one, one), ["a"], ["a"], title="one", resource=resource
        )


class _Entry:
    def __init__(self, loaded: object) -> None:
        self.name, self.value, self._loaded = "ones", "ones:FORMAT", loaded

    def load(self) -> object:
        if isinstance(self._loaded, Exception):
            raise self._loaded
        return self._loaded


def test_another_distribution_adds_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "entry_points", lambda _: (_Entry(_Ones()),))
    (tmp_path / "one.txt").write_text("1")
    assert format_names()[-1] == "ones"
    assert detected(tmp_path / "one.txt") == "ones"
    assert read_trace(tmp_path / "one.txt", None, CPU).names == ["a"]
    monkeypatch.setattr(formats, "entry_points", lambda _: (_Entry(ImportError("no module")),))
    with pytest.raises(Misconfigured, match="ones:FORMAT cannot be loaded: no module"):
        read_trace(tmp_path / "one.txt", "ones", CPU)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 3000),
        st.one_of(st.floats(0, 2000), st.sampled_from([-1.0, float("nan")])),
        st.sampled_from([0.0, 500.0, 1000.0]),
    ),
    min_size=1,
    max_size=60,
)


@given(rows=ROWS, size=st.integers(1, 20), most=st.integers(0, 30))
def test_merged_batches_give_the_same_trace_as_all_rows_at_once(
    rows: list[tuple[int, int, float, float]], size: int, most: int
) -> None:
    series, seconds, used, limit = (np.array(column) for column in zip(*rows, strict=True))
    whole = Samples(series.astype(np.intp), seconds.astype(np.int64), used.astype(float), limit.astype(float))
    parts = SampleAccumulator(most)
    for at in range(0, len(rows), size):
        cut = slice(at, at + size)
        parts.add(whole.series[cut], whole.seconds[cut], whole.usage[cut], whole.limit[cut])
    names = ["a", "b", "c", "d"]
    try:
        expected = grid(whole, names, names, title="t", resource=CPU)
    except InvalidInput:
        with pytest.raises(InvalidInput, match="no usable row"):
            grid(parts.samples(), names, names, title="t", resource=CPU)
        return
    found = grid(parts.samples(), names, names, title="t", resource=CPU)
    assert (found.names, found.start_seconds, found.repairs) == (
        expected.names,
        expected.start_seconds,
        expected.repairs,
    )
    np.testing.assert_allclose(found.usage, expected.usage, rtol=1e-5)
    np.testing.assert_allclose(found.limit, expected.limit, rtol=1e-5)
    assert (found.present == expected.present).all()
