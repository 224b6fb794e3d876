"""A request refused by validation names the field, the value and what is allowed."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

import httpx2
import pytest
from fastapi import Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from slackwater.model import close_names
from slackwater.model.close_names import closest
from slackwater.runtime.http import build_app
from slackwater.runtime.roles import Role
from slackwater.runtime.routes import DryRun, Routes
from slackwater.runtime.settings import HttpSettings


def _even(value: int) -> int:
    if value % 2:
        raise ValueError(f"{value} is odd; allowed: even numbers")
    return value


class Rates(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cpu: Annotated[float, Field(lt=1)]


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mode: str
    pods: Annotated[int, AfterValidator(_even)] = 0
    rate: Annotated[float, Field(lt=1)] | Rates = 0.5
    size: Size = Size.SMALL
    kind: Literal["Offer"] = "Offer"


async def _no_checks() -> list[Any]:
    return []


@pytest.fixture
def client() -> httpx2.AsyncClient:
    router = Routes()

    @router.put("/v1/wanted", role=Role.VIEWER)
    async def put(wanted: Wanted, limit: Annotated[int, Query(ge=1)] = 1, dry_run: DryRun = False) -> int:
        return wanted.pods + limit + dry_run

    app = build_app([router], _no_checks, HttpSettings.local())
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")


JSON = "application/json"
SIZES = "Input should be 'small' or 'large'"
KINDS = "Input should be 'Offer'"
NO_NUMBER = "Input should be a valid number"
NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("body", "query", "content_type", "detail"),
    [
        (b'{"mode": "a", "pods": null}', "", JSON, "body.pods: Input should be a valid integer; got None"),
        (b'{"mode": "a", "pods": 3}', "", JSON, "body.pods: 3 is odd; allowed: even numbers"),
        (b'{"mode": "a", "size": "lage"}', "", JSON, f"body.size: {SIZES}; got 'lage'; did you mean 'large'?"),
        (b'{"mode": "a", "size": "xyz"}', "", JSON, f"body.size: {SIZES}; got 'xyz'"),
        (b'{"mode": "a", "size": 3}', "", JSON, f"body.size: {SIZES}; got 3"),
        (b'{"mode": "a", "kind": "offer"}', "", JSON, f"body.kind: {KINDS}; got 'offer'; did you mean 'Offer'?"),
        (b'{"mode": "a", "pots": 3}', "", JSON, "body.pots: unknown field; did you mean pods?"),
        (b'{"mode": ["a"]}', "", JSON, "body.mode: Input should be a valid string"),
        (b"{}", "", JSON, "body.mode: is missing"),
        (b'{"mode": "a", "rate": 2}', "", JSON, "body.rate: Input should be less than 1; got 2"),
        (b'{"mode": "a", "rate": {"cpu": 2}}', "", JSON, "body.rate.cpu: Input should be less than 1; got 2"),
        (b'{"mode": "a", "rate": {}}', "", JSON, "body.rate.cpu: is missing"),
        (b'{"mode": "a", "rate": {"cpu": 0.1, "ram": 1}}', "", JSON, "body.rate.ram: unknown field; allowed: cpu"),
        (b'{"mode": "a", "rate": []}', "", JSON, f"body.rate: {NO_NUMBER}; body.rate: must be an object with fields"),
        (b'{"mode": "a"}', "?limit=-1", JSON, "query.limit: Input should be greater than or equal to 1; got '-1'"),
        (b"", "?limit=" + "x" * 90, JSON, f"query.limit: {NO_INTEGER}; got '{'x' * 79}…; body: is missing"),
        (b'{"mode": ', "", JSON, "body: is not JSON: Expecting value at character 9"),
        (b'{"mode": "a"}', "", "text/plain", f"body: is read as JSON only with content-type: {JSON}; got text/plain"),
    ],
)
async def test_what_is_wrong_is_said_with_field_and_value(
    client: httpx2.AsyncClient, body: bytes, query: str, content_type: str, detail: str
) -> None:
    async with client:
        answer = await client.put(f"/v1/wanted{query}", content=body, headers={"content-type": content_type})
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)
    assert all(set(each) == {"field", "message"} for each in answer.json()["errors"])


async def test_what_is_not_there_and_what_is_not_done_there_is_named(client: httpx2.AsyncClient) -> None:
    async with client:
        nowhere, wrong = await client.get("/v1/wnated"), await client.delete("/v1/wanted")
    assert nowhere.json()["detail"] == "there is nothing at /v1/wnated; /docs and /v1/openapi.json say what there is"
    assert wrong.json()["detail"] == "DELETE is not allowed at /v1/wanted; allowed: PUT"


@pytest.mark.parametrize(
    "wanted",
    [
        {"mode": "a", "k" * 200_000: 1},
        {"mode": "a", **{f"{'k' * 2000}{number}": 1 for number in range(100)}},
        {"mode": "a", "kind": "Offe" + "r" * 200_000},
        {"mode": "a", "rate": "v" * 200_000},
        {"mode": "a", "size": "v" * 200_000},
    ],
)
async def test_an_answer_is_short_however_long_the_refused_value_is(
    client: httpx2.AsyncClient, wanted: dict[str, Any]
) -> None:
    answer = await client.put("/v1/wanted", json=wanted)
    assert answer.status_code == 422
    assert len(answer.content) < 32_768
    assert all(len(error["field"]) + len(error["message"]) < 2000 for error in answer.json()["errors"])


def test_a_long_text_is_compared_with_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(close_names, "get_close_matches", lambda name, *_, **__: compared.append(name) or [])
    assert (closest("Smal", ["small"]), closest("s" * 101, ["small"])) == ("", "")
    assert compared == ["smal"]
