"""A signal that reaches a command between its entry into the cgroup and its exec ends it, as any later one does."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from slackwater.agent.adapters.linux.supervise import Forwarder, run_child


def test_a_command_that_is_ended_before_its_exec_does_not_run(tmp_path: Path) -> None:
    entrance, ran, others = tmp_path / "cgroup.procs", tmp_path / "ran", _children()
    os.mkfifo(entrance)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}

    def end_the_child() -> None:
        with entrance.open("rb", buffering=0) as fifo:  # the child waits in its entry until this end is open
            [pid] = _children() - others
            os.kill(pid, signal.SIGTERM)
            fifo.read()

    forwarder = Forwarder()
    forwarder.install()
    ending = threading.Thread(target=end_the_child)
    try:
        ending.start()
        code = run_child(("sh", "-c", f"sleep 0.2; touch {ran}"), forwarder, (tmp_path,))
        ending.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert code == 128 + signal.SIGTERM
    assert not ran.exists()


def _children() -> set[int]:
    """Of this process, servers of earlier tests among them."""
    task = Path(f"/proc/{os.getpid()}/task")
    lines = [(place / "children").read_text() for place in task.iterdir()]
    return {int(pid) for line in lines for pid in line.split()}
