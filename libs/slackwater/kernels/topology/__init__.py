"""Which CPUs and which NUMA memory a container gets: machines, hints and their merge, CPU sets, sizes of pools.

The agent reads its machine from sysfs (`agent/adapters/linux/cpu_machine`).
"""
