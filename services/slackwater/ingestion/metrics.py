"""What ingestion promises to count."""

from __future__ import annotations

from prometheus_client import Counter

ACCEPTED = Counter("slackwater_ingestion_reports_accepted", "Usage reports that went into history")
REFUSED = Counter("slackwater_ingestion_reports_refused", "Usage reports that were dead-lettered", ["reason"])
MISSING = Counter("slackwater_ingestion_reports_missing", "Usage reports that their agent numbered and nobody saw")
LATE = Counter("slackwater_ingestion_reports_late", "Usage reports that came after their window was closed")
WINDOWS = Counter("slackwater_ingestion_windows_closed", "Windows of usage that were closed and published")
