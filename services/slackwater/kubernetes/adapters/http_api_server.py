"""The API server over HTTP: slackwater.apiserver.port.ApiServer.

lightkube reads the kubeconfig or the pod's service account and signs in (certificates, tokens that are rotated, exec
plugins). Requests are made here, because its watch has no bookmarks, loses deletions after 410, and builds whole
objects of what is read for a few fields (decision 0100).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.exceptions import ConfigError

from slackwater.apiserver.answers import (
    SILENT_SECONDS,
    answered,
    decode_answer,
    is_final_refusal,
    read_event,
    read_page,
    refusal,
    watch_query,
)
from slackwater.apiserver.cluster_events import API as EVENTS_API
from slackwater.apiserver.cluster_events import EventSeries
from slackwater.apiserver.node_owners import FIELD_MANAGER
from slackwater.apiserver.objects import SECRETS, SecretRecord, parse_secret, secret_patch
from slackwater.apiserver.port import (
    CredentialsRefused,
    DefinitionOutdated,
    EvictionRefused,
    KindNotServed,
    Page,
    RightMissing,
    WatchEvent,
)
from slackwater.apiserver.records import (
    ApiRecord,
    ClusterNode,
    Taint,
    WatchedKind,
    parse_node,
    taints_json,
)
from slackwater.apiserver.resource_names import quantities
from slackwater.apiserver.rights import REVIEWS, access_review, parts_of
from slackwater.client.bounded_answers import bounded_async
from slackwater.model.errors import Conflict, Misconfigured, NotFound, SlackwaterError, Unavailable
from slackwater.model.time import Clock, SystemClock

T = TypeVar("T", bound=ApiRecord)

REQUEST_SECONDS: Final = 15.0
PROMPT_SECONDS: Final = 2.0
"""An answer that took longer says nothing about the server's clock."""
APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"
_OUTDATED: Final = "field not declared in schema"
"""How the server refuses a status with a field that its definition lacks."""
_UNUSABLE: Final = (ConfigError, OSError, ValueError, KeyError, TypeError, AttributeError, yaml.YAMLError)
"""What lightkube raises for a kubeconfig that is missing, malformed or incomplete; msgspec's errors are ValueErrors."""


class HttpApiServer:
    """Connects at the first request; `close` afterwards. An empty `kubeconfig` means KUBECONFIG, then the pod's service
    account, then ~/.kube/config."""

    def __init__(self, kubeconfig: str = "", context: str = "", clock: Clock | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._clock = clock or SystemClock()
        self._opened: httpx2.AsyncClient | None = None
        self._missing: dict[tuple[str, ...], tuple[str, str]] = {}
        """The refused right and the path of the request, by the use that was refused."""
        self._skew: float | None = None

    @property
    def missing_rights(self) -> Sequence[str]:
        return sorted({right for right, _ in self._missing.values()})

    async def review_rights(self) -> None:
        for use, (right, path) in tuple(self._missing.items()):
            try:
                answer = await self._request("POST", REVIEWS, {}, access_review(right.partition(" ")[0], path), JSON)
            except SlackwaterError:  # not answered: missing until it is used with success
                self._missing.pop(("POST", *used_resource(REVIEWS)), None)
                return
            if (answer.get("status") or {}).get("allowed"):
                self._missing.pop(use, None)

    @property
    def clock_skew_seconds(self) -> float | None:
        return self._skew

    async def connect(self) -> None:
        """Read the configuration. Raises Misconfigured that says what is missing."""
        self._client()

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()

    @property
    def url(self) -> str:
        """Where the server is, for messages."""
        return str(self._client().base_url).rstrip("/")

    async def read(self, path: str, query: Mapping[str, str] | None = None, accept: str = "") -> Mapping[str, Any]:
        """The answer to a GET of any path. Raises NotFound and the port's errors."""
        return await self._request("GET", path, query or {}, accept=accept)

    async def ask(self, path: str, review: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to a review (of an account, of rights), which the server does not store."""
        return await self._request("POST", path, {}, review, JSON)

    async def apply(self, path: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Server-side apply of an object at its path: it is created if it is absent, with a right that may name it."""
        return await self._request("PATCH", path, {"fieldManager": FIELD_MANAGER, "force": "true"}, document)

    async def list_page(self, kind: WatchedKind[T], limit: int, page: str = "") -> Page[T]:
        query = {"limit": str(limit), **({"continue": page} if page else {})}
        try:
            answer = await self._request("GET", kind.path, query)
        except NotFound as error:
            raise _not_served(kind) from error
        return read_page(kind, answer)

    async def watch(self, kind: WatchedKind[T], version: str) -> AsyncIterator[WatchEvent[T]]:
        timeout = httpx2.Timeout(REQUEST_SECONDS, read=SILENT_SECONDS)
        with _translated():
            async with self._client().stream(
                "GET", kind.path, params=watch_query(version), timeout=timeout
            ) as response:
                if response.status_code != httpx2.codes.OK:
                    refused = self._refused("WATCH", kind.path, response, await response.aread())
                    raise _not_served(kind) if isinstance(refused, NotFound) else refused
                self._missing.pop(("WATCH", *used_resource(kind.path)), None)
                yield answered(version)
                async for line in response.aiter_lines():
                    if line:
                        yield read_event(kind, line)

    async def apply_lent(self, node: ClusterNode, amounts: Mapping[str, int], *, force: bool) -> ClusterNode:
        """Never by applying less: where no manager owns what a kubelet registered its node with, the server removes the
        whole map with the last field that is no longer applied (decision 0100)."""
        path, after = f"api/v1/nodes/{node.key}/status", node
        if withdrawn := node.to_withdraw(amounts):
            status = {part: dict.fromkeys(names) for part, names in withdrawn.items()}
            removal = {"metadata": {"resourceVersion": node.version}, "status": status}
            after = parse_node(await self._request("PATCH", path, {"fieldManager": FIELD_MANAGER}, removal, MERGE))
        if not amounts:
            return after
        written = quantities(amounts)
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": node.key, "uid": node.uid},
            "status": {"capacity": written, "allocatable": written},
        }
        query = {"fieldManager": FIELD_MANAGER, "force": str(force).lower()}
        return parse_node(await self._request("PATCH", path, query, body))

    async def set_cordon(self, node: ClusterNode, cordon: Taint | None) -> ClusterNode:
        body = {"metadata": {"resourceVersion": node.version}, "spec": {"taints": taints_json(node, cordon)}}
        query = {"fieldManager": FIELD_MANAGER}
        return parse_node(await self._request("PATCH", f"api/v1/nodes/{node.key}", query, body, MERGE))

    async def evict_pod(self, pod: str, uid: str, grace_seconds: int, *, dry_run: bool) -> None:
        namespace, _, name = pod.partition("/")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"gracePeriodSeconds": grace_seconds, "preconditions": {"uid": uid}},
        }
        path = f"api/v1/namespaces/{namespace}/pods/{name}/eviction"
        try:
            await self._request("POST", path, {"dryRun": "All"} if dry_run else {}, body, JSON)
        except Conflict as error:
            if "UID" in error.message:
                raise
            raise Unavailable(f"the pod changed meanwhile: {error.message}") from error
        except SlackwaterError as error:
            if is_final_refusal(error):
                raise EvictionRefused(error.message) from error
            raise

    async def write_event(self, series: EventSeries, instance: str, *, is_new: bool) -> None:
        path = f"apis/{EVENTS_API}/namespaces/{series.event.namespace}/events"
        if is_new:
            await self._request("POST", path, {}, series.document(instance), JSON)
        else:
            await self._request("PATCH", f"{path}/{series.name}", {}, series.series(), MERGE)

    async def apply_object(self, kind: WatchedKind[T], key: str, document: Mapping[str, Any]) -> T:
        metadata = {**document.get("metadata", {}), "name": key}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **document, "metadata": metadata}
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return kind.parse(await self._request("PATCH", f"{kind.path}/{key}", query, body))

    async def apply_status(self, kind: WatchedKind[T], key: str, uid: str, status: Mapping[str, Any]) -> T:
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": key, "uid": uid},
            "status": status,
        }
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        try:
            return kind.parse(await self._request("PATCH", f"{kind.path}/{key}/status", query, body))
        except SlackwaterError as error:
            if _OUTDATED in error.message:
                raise DefinitionOutdated(
                    f"the definition of {kind.kind} in the cluster is of another version ({error.message}):"
                    " make crds && kubectl apply --server-side -f .slackwater/crds.yaml"
                ) from error
            raise

    async def serves(self, kind: WatchedKind[T]) -> bool:
        try:
            answer = await self._request("GET", kind.path.rpartition("/")[0], {})
        except NotFound:
            return False
        return any(one.get("name") == kind.plural for one in answer.get("resources") or ())

    async def read_object(self, kind: WatchedKind[T], key: str) -> T | None:
        try:
            return kind.parse(await self._request("GET", _path(kind, key), {}))
        except NotFound:
            return None

    async def write_secret(self, secret: SecretRecord, data: Mapping[str, str]) -> SecretRecord:
        query, body = {"fieldManager": FIELD_MANAGER}, secret_patch(secret, data)
        return parse_secret(await self._request("PATCH", _path(SECRETS, secret.key), query, body, MERGE))

    async def delete_object(self, kind: WatchedKind[T], key: str, uid: str) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        with suppress(NotFound):
            await self._request("DELETE", f"{kind.path}/{key}", {}, body, JSON)

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object = None,
        content_type: str = APPLY,
        accept: str = "",
    ) -> Mapping[str, Any]:
        content = None if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": content_type}
        headers |= {"Accept": accept} if accept else {}
        began = self._clock.monotonic()
        with _translated():
            response = await self._client().request(method, path, params=query, content=content, headers=headers)
            self._note_clock(response, self._clock.monotonic() - began)
            if response.status_code >= httpx2.codes.BAD_REQUEST:
                raise self._refused(method, path, response, response.content)
            self._missing.pop((method, *used_resource(path)), None)
            answer: Mapping[str, Any] = decode_answer(response.content)
            return answer

    def _refused(self, method: str, path: str, response: httpx2.Response, body: bytes) -> SlackwaterError:
        error, use = refusal(response.status_code, body), (method, *used_resource(path))
        if isinstance(error, RightMissing):
            self._missing[use] = error.right, path
        elif not isinstance(error, Unavailable):  # it was allowed, and refused for another reason
            self._missing.pop(use, None)
        return error

    def _note_clock(self, response: httpx2.Response, seconds: float) -> None:
        """The header Date has whole seconds, and is of some time within the request."""
        try:
            then = parsedate_to_datetime(response.headers["Date"])
        except (KeyError, ValueError):
            return
        if seconds <= PROMPT_SECONDS and then.tzinfo is not None:
            middle = self._clock.now() - timedelta(seconds=seconds / 2)
            self._skew = (then - middle).total_seconds() + 0.5

    def _client(self) -> httpx2.AsyncClient:
        if self._opened is None or self._opened.is_closed:
            self._opened = _open(self._kubeconfig, self._context)
        return self._opened


def used_resource(path: str) -> tuple[str, ...]:
    """Group, resource and subresource that a path uses, without names: `("apps", "deployments", "scale")`."""
    group, _, rest = parts_of(path)
    return group, *rest[:1], *rest[2:3]


def _not_served(kind: WatchedKind[Any]) -> KindNotServed:
    return KindNotServed(f"the cluster does not serve {kind.plural} of {kind.api_version}")


def _path(kind: WatchedKind[Any], key: str) -> str:
    namespace, _, name = key.rpartition("/")
    if not namespace:
        return f"{kind.path}/{name}"
    group, _, plural = kind.path.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}/{name}"


def _open(kubeconfig: str, context: str) -> httpx2.AsyncClient:
    try:
        found = KubeConfig.from_file(Path(kubeconfig)) if kubeconfig else KubeConfig.from_env()
        config = found.get(context or None)
        if config is None:
            raise Misconfigured("the kubeconfig names no current context: set SLACKWATER_KUBERNETES_CONTEXT")
        timeout = httpx2.Timeout(REQUEST_SECONDS)
        client = AsyncClient(config, ConnectionParams(timeout=timeout))
        client.event_hooks = {"response": [bounded_async]}
        return client
    except _UNUSABLE as error:
        why = " ".join(str(error).split())
        raise Misconfigured(
            f"no Kubernetes cluster is configured ({why}): set SLACKWATER_KUBERNETES_KUBECONFIG or KUBECONFIG, or run"
            " the service in a pod with a service account"
        ) from error


class _translated:  # noqa: N801 - used like a function; a generator cannot hold a watch open across yields
    """Raises Unavailable for what the connection raises."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpx2.HTTPError | httpx2.StreamError | OSError | asyncio.IncompleteReadError):
            raise Unavailable(f"the API server does not answer: {str(error) or type(error).__name__}") from error
        if isinstance(error, msgspec.DecodeError | RecursionError):
            raise Unavailable(f"the API server sent an answer that is no JSON: {error}") from error
        if isinstance(error, ConfigError):
            raise CredentialsRefused(f"the Kubernetes credentials cannot be used: {error}") from error


@asynccontextmanager
async def open_api_server(kubeconfig: str = "", context: str = "") -> AsyncIterator[HttpApiServer]:
    """A connected API server while the context is open. Raises Misconfigured."""
    server = HttpApiServer(kubeconfig, context)
    try:
        await server.connect()
        yield server
    finally:
        await server.close()
