"""schemathesis over the OpenAPI description of the whole composition, on real PostgreSQL and NATS.

No request makes a server error, and every answer is one that the description allows, problems included.
SLACKWATER_SCHEMATHESIS_EXAMPLES=500 looks longer.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from described import described
from hostile import ALIKE
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as limits
from schemathesis import openapi
from schemathesis.specs.openapi.checks import positive_data_acceptance
from whole_server import ADMIN, SHARES_RANDOM, WholeServer, server

pytestmark = SHARES_RANDOM

__all__ = ["server"]

EXAMPLES = int(os.environ.get("SLACKWATER_SCHEMATHESIS_EXAMPLES", "12"))
EXAMPLES_OF_ALIKE = -(-EXAMPLES // 3)
"""Of a route without a body that the same code makes for a dozen kinds, or for every service."""
STREAM = "/v1/stream"
"""It does not end by itself: test_stream_parameters.py asks it."""
SCHEMA = openapi.from_dict(described())
OPERATIONS = {
    f"{operation.method.upper()} {operation.path}": operation
    for operation in (found.ok() for found in SCHEMA.get_all_operations())
    if operation.path != STREAM
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_is_one_that_the_description_allows(server: WholeServer, name: str) -> None:
    operation = OPERATIONS[name]
    is_alike = ALIKE.search(operation.path) and not operation.body

    @given(case=operation.as_strategy())
    @limits(
        max_examples=EXAMPLES_OF_ALIKE if is_alike else EXAMPLES,
        deadline=None,
        derandomize="SLACKWATER_SCHEMATHESIS_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
        database=None,
    )
    def every(case: Any) -> None:
        case.call_and_validate(
            base_url=server.url, headers=ADMIN, timeout=10, excluded_checks=[positive_data_acceptance]
        )

    every()
