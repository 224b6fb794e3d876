from __future__ import annotations

from slackwater.demo.api import counter_total

TEXT = """# HELP windows_total Windows.
# TYPE windows_total counter
windows_total{pool="a"} 3.0
windows_total{pool="b"} 4.0
windows_total_created 1.7e9
"""


def test_a_counter_is_the_sum_over_its_labels() -> None:
    assert counter_total(TEXT, "windows_total") == 7


def test_a_counter_that_is_not_there_yet_is_zero() -> None:
    assert counter_total(TEXT, "reports_total") == 0
