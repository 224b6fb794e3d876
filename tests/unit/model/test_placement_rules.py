"""Conditions on labels, as Kubernetes' scheduler reads them."""

from __future__ import annotations

import pytest

from slackwater.model.placement_rules import LabelOperator, LabelRequirement


@pytest.mark.parametrize(
    ("operator", "value", "bound", "holds"),
    [
        *((LabelOperator.GT, "9", "8", True), (LabelOperator.GT, "8", "8", False), (LabelOperator.LT, "-3", "0", True)),
        *((LabelOperator.GT, "1_0", "8", False), (LabelOperator.GT, "9", "0_8", False)),  # digits of Python alone
        *(
            (LabelOperator.GT, "\u0669", "8", False),
            (LabelOperator.LT, " 7", "8", False),
            (LabelOperator.GT, "", "8", False),
        ),
        *((LabelOperator.GT, "9223372036854775808", "8", False), (LabelOperator.LT, "7", "9223372036854775808", False)),
        *((LabelOperator.GT, "9223372036854775807", "8", True), (LabelOperator.GT, "007", "6", True)),
    ],
)
def test_a_number_is_one_of_the_api_server(operator: LabelOperator, value: str, bound: str, *, holds: bool) -> None:
    """What its 64-bit parser refuses fulfils nothing."""
    assert LabelRequirement("n", operator, (bound,)).holds({"n": value}) is holds
