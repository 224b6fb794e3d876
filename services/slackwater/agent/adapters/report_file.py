"""The restore report on disk, for people and scripts that read it afterwards."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from slackwater.agent.adapters.disk_files import OS_FILES, DiskFiles
from slackwater.agent.adapters.durable import replace_file
from slackwater.agent.usecases.actuate import RestoreReport
from slackwater.model.errors import Unavailable
from slackwater.telemetry.logs import get_logger

_log = get_logger(__name__)


def keep_report(file: Path, report: RestoreReport, disk: DiskFiles = OS_FILES) -> None:
    """Write the report; a full disk is logged and does not delay the stop."""
    content = {"exact": report.exact, "files": [asdict(file) for file in report.files]}
    try:
        replace_file(file, json.dumps(content, indent=1).encode() + b"\n", disk)
    except Unavailable as error:
        _log.warning("restore report not written", error=error.message)
