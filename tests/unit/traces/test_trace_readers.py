from __future__ import annotations

import builtins
import gzip
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.model.errors import InvalidInput, Misconfigured
from slackwater.traces.options import TraceFormat, TraceResource
from slackwater.traces.readers.formats import read_trace
from slackwater.traces.trace import Trace

CPU, MEMORY = TraceResource.CPU, TraceResource.MEMORY


def parquet(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    import pyarrow
    from pyarrow import parquet as files

    files.write_table(pyarrow.table(dict(columns)), path)
    return path


BITBRAINS: Mapping[str, Sequence[Any]] = {
    "vm": [7, 7, 3, 3, 3, 9],
    "ts": [1_375_308_000, 1_375_308_600, 1_375_308_301, 1_375_308_301, 1_375_308_000, 1_375_308_000],
    "cpu_used_mhz": [100.0, 9000.0, 30.0, 50.0, 20.0, 5.0],
    "cpu_cap_mhz": [2000.0, 2000.0, 1000.0, 1000.0, 1000.0, 0.0],
    "mem_used_kb": [1.0, 2.0, 3.0, 3.0, 4.0, 5.0],
    "mem_cap_kb": [8.0, 8.0, 8.0, 8.0, 8.0, 8.0],
}


def test_bitbrains_with_late_doubled_missing_and_impossible_rows(tmp_path: Path) -> None:
    trace = read_trace(parquet(tmp_path / "rnd_2013-8.parquet", BITBRAINS), TraceFormat.BITBRAINS, CPU)
    assert trace.names == ["vm-3", "vm-7"]
    assert trace.start_seconds == 1_375_308_000
    assert trace.usage.T.tolist() == [[20, 40, 0], [100, 100, 2000]]
    assert trace.limit.T.tolist() == [[1000, 1000, 0], [2000, 2000, 2000]]
    assert trace.present.T.tolist() == [[True, True, False], [True, True, True]]
    assert not trace.whole_machines
    counts = trace.repairs
    assert (counts.rows, counts.unusable, counts.doubled, counts.over_limit) == (6, 1, 1, 1)
    assert (counts.filled, counts.empty_series) == (1, 1)


def test_bitbrains_memory_is_in_bytes_and_a_folder_is_all_its_months(tmp_path: Path) -> None:
    parquet(tmp_path / "rnd_2013-8.parquet", BITBRAINS)
    later = {**BITBRAINS, "ts": [at + 1800 for at in BITBRAINS["ts"]]}
    parquet(tmp_path / "rnd_2013-9.parquet", later)
    parquet(tmp_path / "fixture_60vm_4weeks.parquet", {"vm": [1]})
    trace = read_trace(tmp_path, TraceFormat.BITBRAINS, MEMORY)
    assert trace.cells == 9
    assert trace.limit[0].tolist() == [8192] * 3
    assert trace.usage[:, 1].tolist() == [1024] * 2 + [2048] + [2048] * 3 + [1024] * 2 + [2048]


def test_google_machines_have_the_capacity_that_both_columns_imply(tmp_path: Path) -> None:
    zero = 600 * 10**6
    path = parquet(
        tmp_path / "usage_5min.parquet",
        {
            "machine": [5, 5, 8, 8],
            "ts_us": [zero, zero + 300 * 10**6, zero, zero + 300 * 10**6],
            "cpu": np.array([0.25, 0.125, 0.1, 0.1], np.float32),
            "cpu_pct": np.array([50.0, 25.0, np.nan, np.nan], np.float32),
            "mem": np.array([0.1, 0.2, 0.1, 0.2], np.float32),
            "mem_pct": np.array([10.0, 20.0, 40.0, 80.0], np.float32),
        },
    )
    trace = read_trace(path, TraceFormat.GOOGLE2011, CPU)
    assert trace.whole_machines
    assert trace.names == ["machine-5"], "the capacity of the other one cannot be known"
    assert trace.limit[:, 0].tolist() == [16_000, 16_000]
    assert trace.usage[:, 0].tolist() == [8_000, 4_000]
    assert trace.start_seconds % 300 == 0
    memory = read_trace(tmp_path, TraceFormat.GOOGLE2011, MEMORY)
    assert memory.limit[0] == pytest.approx([128 * 2**30, 32 * 2**30])


def test_alibaba_takes_the_mean_of_a_cell_and_leaves_out_what_the_trace_marks_as_bad(tmp_path: Path) -> None:
    text = "m_1,0,20,90,,,1,1,1\nm_1,100,40,90,,,1,1,1\nm_1,310,101,90,,,1,1,1\nm_1,650,50,,,,1,1,1\nm_2,5,-1,1,,,,,\n"
    path = tmp_path / "machine_usage.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    trace = read_trace(tmp_path, TraceFormat.ALIBABA2018, CPU)
    assert trace.whole_machines
    assert trace.names == ["m_1"]
    assert trace.usage[:, 0].tolist() == [28_800, 28_800, 48_000]
    assert trace.limit[:, 0].tolist() == [96_000] * 3
    assert read_trace(path, TraceFormat.ALIBABA2018, MEMORY).repairs.unusable == 1


CSV = """time,pod,workload,cpu_limit_milli,cpu_milli,memory_bytes,memory_limit_bytes
1970-01-01T00:10:00Z,web-1,web,1000,100,1,10
1970-01-01T00:05:00,web-2,web,1000,200,2,10
1970-01-01 02:15+02:00,db-1,,500,,3,10
900,web-1,web,1000,300,4,10
"""


def csv_trace(tmp_path: Path, text: str, resource: TraceResource = CPU) -> Trace:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    return read_trace(path, TraceFormat.CSV, resource)


def test_an_operators_own_csv(tmp_path: Path) -> None:
    trace = csv_trace(tmp_path, CSV)
    assert trace.names == ["web-1", "web-2"], "db-1 has no sample of CPU"
    assert trace.workload.tolist() == [0, 0]
    assert trace.start_seconds == 300
    assert trace.usage.T.tolist() == [[0, 100, 300], [200, 0, 0]]
    memory = csv_trace(tmp_path, CSV, MEMORY)
    assert memory.names == ["web-1", "web-2", "db-1"]
    assert memory.workload.tolist() == [1, 1, 0]


def test_a_csv_without_workloads_takes_each_pod_for_its_own(tmp_path: Path) -> None:
    trace = csv_trace(tmp_path, "time,pod,cpu_milli,cpu_limit_milli\n0,b,1,9\n0,a,2,9\n")
    assert trace.workload.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column time, pod, cpu_milli, cpu_limit_milli; the first line has nothing"),
        ("time,pod\n", "no column cpu_milli, cpu_limit_milli; the first line has time, pod"),
        ("time,pod,cpu_milli,cpu_limit_milli\n", "no usable row among 0"),
        ("time,pod,cpu_milli,cpu_limit_milli\nnoon,a,1,9\n", "line 2: time 'noon' is neither seconds nor ISO 8601"),
        ("time,pod,cpu_milli,cpu_limit_milli\n0,a,much,9\n", "line 2: cpu_milli 'much' is not a number"),
        ("time,pod,cpu_milli,cpu_limit_milli\n0,a,1,9\n0,,1,9\n", "line 3: pod is empty"),
        ("time,pod,cpu_milli,cpu_limit_milli\n0,a\n", "no usable row among 1"),
        ("time,pod,cpu_milli,cpu_limit_milli\n1e999,a,1,9\n", "line 2: time '1e999'"),
        ("time,pod,cpu_milli,cpu_limit_milli\n1e20,a,1,9\n", "line 2: time '1e20'"),
        (
            "time,pod,cpu_milli,cpu_limit_milli\n1767600000000,a,1,9\n",
            "line 2: time '1767600000000' is beyond the year 9999; wanted are seconds since 1970, or ISO 8601",
        ),
        (
            "time,pod,cpu_milli,cpu_limit_milli\n0,a,1,1e15\n",
            "line 2: cpu_limit_milli '1e15' is more than any pod has; wanted are milli-cores",
        ),
    ],
)
def test_a_bad_csv_is_an_error_that_names_the_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        csv_trace(tmp_path, text)
    assert said in caught.value.message


def test_a_field_that_never_ends_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not CSV"):
        csv_trace(tmp_path, 'time,pod,cpu_milli,cpu_limit_milli\n0,"' + "x" * 200_000)


@pytest.mark.parametrize("form", list(TraceFormat))
def test_a_missing_path_and_an_empty_folder_are_errors(tmp_path: Path, form: TraceFormat) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        read_trace(tmp_path / "nothing", form, CPU)
    with pytest.raises(InvalidInput, match="found nothing"):
        read_trace(tmp_path, form, CPU)


@pytest.mark.parametrize("form", list(TraceFormat))
def test_a_file_of_another_format_is_an_error(tmp_path: Path, form: TraceFormat) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(bytes(range(256)) * 8)
    with pytest.raises(InvalidInput, match=r"photo\.jpg"):
        read_trace(path, form, CPU)


def test_a_truncated_gzip_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "machine_usage.csv.gz"
    path.write_bytes(gzip.compress(b"m_1,0,20,90\n" * 1000)[:-20])
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_trace(path, TraceFormat.ALIBABA2018, CPU)


def test_a_line_that_never_ends_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    """200 kB of gzip that are one line of 200 MB."""
    file = tmp_path / "own.csv.gz"
    with gzip.open(file, "wb") as packed:
        packed.write(b"time,pod,workload,cpu_milli,cpu_limit_milli\n0,")
        for _ in range(200):
            packed.write(b"a" * 1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match="line 2: is longer than 1048576 characters"):
            read_trace(file, TraceFormat.CSV, CPU)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_a_damaged_gzip_is_an_error(tmp_path: Path) -> None:
    path, text = tmp_path / "usage.csv.gz", "".join(f"{at},a,{at * 7919 % 1000},1000\n" for at in range(0, 10**6, 300))
    whole = gzip.compress(f"time,pod,cpu_milli,cpu_limit_milli\n{text}".encode())
    for place in range(20, len(whole), 1499):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        with pytest.raises(InvalidInput, match=r"usage\.csv\.gz"):
            read_trace(path, TraceFormat.CSV, CPU)


def test_the_mark_that_spreadsheets_put_first_is_no_part_of_a_name(tmp_path: Path) -> None:
    assert csv_trace(tmp_path, "\ufefftime,pod,cpu_milli,cpu_limit_milli\n0,a,1,9\n").names == ["a"]


def test_an_alibaba_time_without_an_end_is_named(tmp_path: Path) -> None:
    path = tmp_path / "machine_usage.csv"
    path.write_text("m_1,0,20,90\nm_1,inf,20,90\n")
    with pytest.raises(InvalidInput, match="line 2, column seconds: expected machine, seconds"):
        read_trace(path, TraceFormat.ALIBABA2018, CPU)


def test_an_alibaba_line_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "machine_usage.csv"
    path.write_text("m_1,0,20,90\nmachine,time,cpu,mem\n")
    with pytest.raises(InvalidInput, match="line 2, column seconds: expected machine, seconds"):
        read_trace(path, TraceFormat.ALIBABA2018, CPU)


def test_several_files_of_a_one_file_format_must_be_named(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("")
    with pytest.raises(InvalidInput, match=r"several files .*a\.csv, b\.csv; name one"):
        read_trace(tmp_path, TraceFormat.CSV, CPU)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"vm": [1]}, "no column ts, cpu_used_mhz, cpu_cap_mhz; there are vm"),
        ({**BITBRAINS, "cpu_used_mhz": ["a"] * 6}, "column cpu_used_mhz holds string, no numbers"),
        ({**BITBRAINS, "ts": [None, *BITBRAINS["ts"][1:]]}, "column ts has rows without a value"),
    ],
)
def test_a_parquet_file_with_other_columns_is_an_error(
    tmp_path: Path, columns: Mapping[str, Sequence[Any]], said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_trace(parquet(tmp_path / "rnd_2013-8.parquet", columns), TraceFormat.BITBRAINS, CPU)
    assert said in caught.value.message


def test_without_pyarrow_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path / "rnd_2013-8.parquet", BITBRAINS)
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Misconfigured, match=r"pip install 'slackwater\[traces\]'"):
        read_trace(path, TraceFormat.BITBRAINS, CPU)
