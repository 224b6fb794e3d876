"""Parses request bodies as JSON that PostgreSQL and other readers can store: UTF-8, no NUL, no lone
surrogates, finite numbers.

The json module accepts `NaN`, and a lone surrogate both as an escape and as bytes; the first answer
or row that repeats one would fail.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Receive, Scope

from slackwater.model.reading_budget import BODY, BeyondBudget, check_bytes


class BodyBeyondBudget(HTTPException):
    """The body holds more than is read. HTTPException is the only kind that the framework passes
    through where a body is read.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(422, detail)


class StrictRequest(Request):
    """A request whose body is parsed strictly. `admit` is called with the length of the body before it is parsed."""

    def __init__(self, scope: Scope, receive: Receive, admit: Callable[[int], Awaitable[None]]) -> None:
        super().__init__(scope, receive)
        self._admit = admit

    async def json(self) -> Any:
        """Returns the body. Raises HTTPException (400) for what is not strict JSON, and
        json.JSONDecodeError.
        """
        if not hasattr(self, "_json"):
            body = await self.body()
            await self._admit(len(body))
            self._json = parse_json(body)
        return self._json


def parse_json(body: bytes) -> Any:
    """Returns the value of the text. Raises HTTPException (400) with the error in it,
    BodyBeyondBudget, and json.JSONDecodeError for its grammar.
    """
    try:
        check_bytes(body, BODY)
    except BeyondBudget as error:
        raise BodyBeyondBudget(error.message) from None
    try:
        value = json.loads(body.decode(), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"body: not UTF-8 at byte {error.start}") from None
    if b"\\u" in body:
        _refuse_unstorable(value)
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise HTTPException(400, f"body: {name} is not JSON; numbers are finite")


def _refuse_unstorable(value: Any) -> None:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, str):
            if "\0" in item:
                raise HTTPException(400, "body: a text holds a NUL character")
            if not item.isascii() and any("\ud800" <= letter <= "\udfff" for letter in item):
                raise HTTPException(400, "body: a text holds half of a surrogate pair")
