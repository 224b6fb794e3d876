"""Self-contained HTML reports: one file without network access or scripts."""
