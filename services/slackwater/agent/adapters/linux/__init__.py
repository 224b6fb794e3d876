"""A Linux machine: cgroup v1, v2 or both side by side, /proc, /sys, and the registry of managed commands."""
