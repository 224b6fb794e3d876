"""Simulated machines under the real agent: a kernel of cgroup files, pods that live and end, a disk that loses data."""
