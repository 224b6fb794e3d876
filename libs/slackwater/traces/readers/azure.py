"""Azure's public VM traces of 2017 and 2019: vm_cpu_readings-file-N-of-M.csv(.gz) and vmtable.csv(.gz), no headers.

Readings: seconds from 0, VM id, minimum, maximum and average per cent of the VM's cores in five minutes; the average
counts. Cores come from the VM table: a number (2017), or the bucket's upper bound (2019; ">24" counts as 30). The
workload is the deployment. Memory use was not recorded.
As published, readings are in trace_data/vm_cpu_readings and the table is in trace_data/vmtable.
Schema: AzurePublicDatasetV1.md and V2.md of github.com/Azure/AzurePublicDataset, paths: its lists of links.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slackwater.model.errors import InvalidInput
from slackwater.traces.accumulation import SampleAccumulator
from slackwater.traces.grid import grid
from slackwater.traces.options import TraceResource
from slackwater.traces.readers.delimited import FileColumns, SeriesNumbers, batches
from slackwater.traces.readers.files import matching, required
from slackwater.traces.trace import Trace

READINGS = FileColumns(("seconds", "VM id", "minimum CPU %", "maximum CPU %", "average CPU %"), frozenset(("VM id",)))
VM_TABLE = FileColumns(
    (
        "VM id",
        "subscription id",
        "deployment id",
        "created",
        "deleted",
        "maximum CPU",
        "average CPU",
        "95th percentile of maximum CPU",
        "category",
        "cores",
        "memory GB",
    ),
    frozenset(("VM id", "subscription id", "deployment id", "category", "cores", "memory GB")),
)
FILES = "vm_cpu_readings-file-*.csv(.gz), with vmtable.csv(.gz) beside them, in the folder above, or in its vmtable/"
RESOURCES = (TraceResource.CPU,)
LARGEST_CORES = 30
"""Cores of the bucket ">24": the next larger size of that time had 32 or less."""
_READINGS = ("vm_cpu_readings*.csv", "vm_cpu_readings*.csv.gz")
_TABLE = ("vmtable.csv", "vmtable.csv.gz")
_TABLE_FOLDER = "vmtable"


def recognises(path: Path) -> bool:
    return bool(matching(path, *_READINGS))


def read(path: Path, resource: TraceResource) -> Trace:
    """Raises InvalidInput, Misconfigured."""
    if resource is not TraceResource.CPU:
        raise InvalidInput("--resource: Azure's VM traces have no memory use; expected cpu", field="resource")
    files = required(path, FILES, *_READINGS)
    cores, deployment = _vms(_table(files[0]))
    rows, numbers = SampleAccumulator(), SeriesNumbers()
    for file in files:
        for batch in batches(file, READINGS, ("seconds", "VM id", "average CPU %")):
            names = batch.names["VM id"]
            unknown = next((vm for vm in names.values if vm not in cores), None)
            if unknown is not None:
                raise InvalidInput(f"{file}: VM {unknown} is not in the VM table; expected the table of the same trace")
            sizes = np.array([cores[vm] for vm in names.values])[names.codes] * 1000
            series = numbers.of(names.values, names.codes)
            at = batch.whole("seconds")
            rows.add(series, at, batch.numbers["average CPU %"] / 100 * sizes, sizes)
    vms = list(numbers.numbers)
    return grid(rows.samples(), vms, [deployment[vm] for vm in vms], title=path.name, resource=resource)


def _table(readings: Path) -> Path:
    own = readings.absolute().parent
    for folder in (own, own.parent, own.parent / _TABLE_FOLDER):
        found = [folder / name for name in _TABLE if (folder / name).is_file()]
        if found:
            return found[0]
    raise InvalidInput(
        f"--trace: expected vmtable.csv(.gz) beside {readings.name}, in the folder above or in its {_TABLE_FOLDER}/, "
        "for cores; found none",
        field="trace",
    )


def _vms(table: Path) -> tuple[dict[str, float], dict[str, str]]:
    """Cores and deployment by VM."""
    cores, deployment = dict[str, float](), dict[str, str]()
    for batch in batches(table, VM_TABLE, ("VM id", "deployment id", "cores")):
        sizes = batch.names["cores"]
        of_bucket = [_cores(table, text) for text in sizes.values]
        vms, deployments = batch.names["VM id"], batch.names["deployment id"]
        for vm, deployed, size in zip(vms.texts(), deployments.texts(), sizes.codes, strict=True):
            cores[vm], deployment[vm] = of_bucket[size], deployed
    return cores, deployment


def _cores(table: Path, text: str) -> float:
    if text.startswith(">"):
        return float(LARGEST_CORES)
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 10_000:
        raise InvalidInput(f"{table}: expected a count of cores in column cores; found {text!r}")
    return found
