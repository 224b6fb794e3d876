"""What the generated operations call: one request, or all pages of a list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, TypeVar

T = TypeVar("T")
Names = Mapping[str, str]
"""The names in a path, by their place."""


class Calls(ABC):
    """Requests of `Operations`."""

    @abstractmethod
    def _call(
        self,
        model: type[T],
        method: str,
        path: str,
        names: Names,
        params: Mapping[str, Any],
        body: Any = None,
        if_match: str | None = None,
    ) -> T:
        """The answer as `model`. Raises the server's error."""

    @abstractmethod
    def _pages(self, model: type[T], path: str, names: Names, params: Mapping[str, Any]) -> Iterator[T]:
        """The items of all pages."""


class AsyncCalls(ABC):
    """Requests of `AsyncOperations`."""

    @abstractmethod
    async def _call(
        self,
        model: type[T],
        method: str,
        path: str,
        names: Names,
        params: Mapping[str, Any],
        body: Any = None,
        if_match: str | None = None,
    ) -> T:
        """The answer as `model`. Raises the server's error."""

    @abstractmethod
    def _pages(self, model: type[T], path: str, names: Names, params: Mapping[str, Any]) -> AsyncIterator[T]:
        """The items of all pages."""
