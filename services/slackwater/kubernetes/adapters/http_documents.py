"""The REST API of the services: slackwater.kubernetes.ports.DocumentApi."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from slackwater.client.bounded_answers import bounded_async
from slackwater.kubernetes.ports import StoredDocument
from slackwater.model.errors import Conflict, InvalidInput, Misconfigured, NotFound, SlackwaterError, Unavailable
from slackwater.resources.kind import Kind
from slackwater.resources.names import API_VERSION

REQUEST_SECONDS: Final = 10.0
_WARNINGS: Final = re.compile(r'(\d{3}) \S+ "([^"]*)"')
_REFUSALS: Final[Mapping[int, type[SlackwaterError]]] = {
    400: InvalidInput,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    413: InvalidInput,
    422: InvalidInput,
}


class HttpDocuments:
    """`url` is where a service answers, with `{service}` for its name. The token is read for every request, because its
    file is replaced when it is rotated."""

    def __init__(
        self, url: str, token_file: Path | None = None, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._url = url
        self._token_file = token_file
        self._transport = transport
        self._opened: httpx2.AsyncClient | None = None

    async def close(self) -> None:
        """The next request opens a client anew: a service that has failed is run again."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    def _client(self) -> httpx2.AsyncClient:
        if self._opened is None:
            self._opened = httpx2.AsyncClient(
                timeout=REQUEST_SECONDS,
                transport=self._transport,
                trust_env=False,
                event_hooks={"response": [bounded_async]},
            )
        return self._opened

    async def read_all(self, kind: Kind) -> Sequence[StoredDocument]:
        answer, _ = await self._request("GET", kind)
        return [_stored(item) for item in answer["items"]]

    async def put(self, kind: Kind, name: str, spec: Any) -> StoredDocument:
        body = {"apiVersion": API_VERSION, "kind": kind.name, "metadata": {"name": name}, "spec": spec}
        answer, said = await self._request("PUT", kind, name, body)
        return _stored(answer, warning=said.get("199", ""), notice=said.get("299", ""))

    async def delete(self, kind: Kind, name: str) -> None:
        await self._request("DELETE", kind, name)

    async def _request(
        self, method: str, kind: Kind, name: str = "", body: object = None
    ) -> tuple[Any, dict[str, str]]:
        """The JSON of an answer, and its warnings by their code."""
        url = self._url.format(service=kind.service).rstrip("/") + kind.path + (f"/{name}" if name else "")
        headers = {"Authorization": f"Bearer {self._token()}"} if self._token_file is not None else {}
        try:
            response = await self._client().request(method, url, json=body, headers=headers)
        except (httpx2.HTTPError, OSError) as error:
            raise Unavailable(f"{kind.service} does not answer: {str(error) or type(error).__name__}") from error
        try:
            answer = msgspec.json.decode(response.content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            answer = {}
        if not isinstance(answer, dict) or (method != "DELETE" and not answer):
            raise Unavailable(f"{kind.service} does not answer: status {response.status_code} without a document")
        if response.status_code < httpx2.codes.BAD_REQUEST:
            return answer, dict(_WARNINGS.findall(response.headers.get("warning", "")))
        message, code = str(answer.get("detail") or f"status {response.status_code}"), answer.get("code")
        if response.status_code in (401, 403):
            raise Misconfigured(f"{kind.service} refuses the token: {message}")
        refusal = _REFUSALS.get(response.status_code, Unavailable)
        raise refusal(message, code=code)

    def _token(self) -> str:
        try:
            return (self._token_file or Path()).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"the token of the resources API cannot be read: {error}") from error


def _stored(document: Mapping[str, Any], warning: str = "", notice: str = "") -> StoredDocument:
    metadata = document["metadata"]
    return StoredDocument(
        metadata["name"],
        metadata.get("generation", 0),
        metadata.get("changedBy", ""),
        document.get("status") or {},
        warning,
        notice,
    )
