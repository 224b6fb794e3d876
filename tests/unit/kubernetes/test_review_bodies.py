"""The body of an AdmissionReview is bounded before it is parsed."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from slackwater.kubernetes.edge.webhook import PATH, review_app

DEEP = b"[" * 200 + b"]" * 200


async def answered(body: bytes) -> tuple[httpx2.Response, list[Any]]:
    """The answer to a body, and what was reviewed."""
    reviewed: list[Any] = []

    async def review(document: Any) -> Any:
        reviewed.append(document)
        return {}

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(review_app(review)), base_url="http://webhook"
    ) as http:
        return await http.post(PATH, content=body), reviewed


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (DEEP, "levels"),
        (b"[" + b"{}," * 300_000 + b"{}]", "lists and objects"),
        (b'{"a":' + b"9" * 5000, "no JSON"),
        (b"[" * 900_000, "lists and objects"),
        (b'{"kind":"\xed\xa0\x80"}', "no JSON"),
        (b'{"\xff":1}', "no JSON"),
    ],
)
async def test_a_body_beyond_the_budget_is_refused_unread(body: bytes, problem: str) -> None:
    response, reviewed = await answered(body)
    assert response.status_code == 400
    assert problem in response.text
    assert reviewed == []


async def test_a_review_is_read() -> None:
    response, reviewed = await answered(b'{"kind": "AdmissionReview"}')
    assert (response.status_code, reviewed) == (200, [{"kind": "AdmissionReview"}])
