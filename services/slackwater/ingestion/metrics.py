"""What ingestion promises to count."""

from __future__ import annotations

from slackwater.telemetry.metrics import process_meters

_METERS = process_meters()

ACCEPTED = _METERS.counter("slackwater_ingestion_reports_accepted_total", "Usage reports that went into history.")
REFUSED = _METERS.counter(
    "slackwater_ingestion_reports_refused_total", "Usage reports that became dead letters.", ["reason"]
)
MISSING = _METERS.counter(
    "slackwater_ingestion_reports_missing_total", "Usage reports that an agent numbered and that did not come."
)
LATE = _METERS.counter(
    "slackwater_ingestion_reports_late_total", "Usage reports that came after their window was closed."
)
WINDOWS = _METERS.counter("slackwater_ingestion_windows_closed_total", "Windows of usage, closed and published.")
