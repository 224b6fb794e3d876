"""Reads of a cluster what `slackwater doctor --kubernetes` evaluates. Only questions; nothing is created."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.cluster_findings import (
    LENT_PREFIXES,
    LENT_SUBSTRING,
    OTHER_AGENTS,
    OTHER_MANAGERS,
    ClusterSnapshot,
    InstalledKind,
    LentResource,
    OtherProgram,
)
from slackwater.cli.cluster_profiles import limits_in, profile_findings
from slackwater.cli.cluster_rights import INSTALL_RIGHTS, SERVICE_RIGHTS, ClusterRight
from slackwater.cli.findings import Finding
from slackwater.cli.installed_release import InstalledRelease, installed_release, is_own
from slackwater.model.errors import Misconfigured, NotFound, SlackwaterError

if TYPE_CHECKING:
    from slackwater.kubernetes.adapters.http_api_server import HttpApiServer

ReadItems = Callable[[str, str], Awaitable[Sequence[Mapping[str, Any]] | None]]
"""Reads a list for a check; None: it may not be read."""
PAGE: Final = 500
AT_ONCE: Final = 8
REVIEWS: Final = "apis/authorization.k8s.io/v1"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
ENFORCED: Final = "pod-security.kubernetes.io/enforce"
NAMES_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""With it the server answers with metadata: contents of secrets do not travel."""
UNKNOWN_WRITER: Final = "an unnamed writer"
"""The server names no writer of an object that was never applied."""
ADMISSION: Final = "apis/admissionregistration.k8s.io/v1"
NAMESPACED: Final = frozenset(
    {
        *("services", "serviceaccounts", "secrets", "persistentvolumeclaims", "deployments", "statefulsets"),
        *("daemonsets", "jobs", "cronjobs", "poddisruptionbudgets", "networkpolicies", "roles", "rolebindings"),
    }
)


async def cluster_snapshot(server: HttpApiServer, namespace: str) -> ClusterSnapshot:
    """Everything, or the trouble of the first request. A list that may not be read is in `unread`."""
    try:
        version = str((await server.read("version")).get("gitVersion") or "")
    except SlackwaterError as error:
        return ClusterSnapshot(url=server.url, trouble=error.message)
    unread: dict[str, str] = {}
    limit = asyncio.Semaphore(AT_ONCE)

    async def items(check: str, path: str, accept: str = "") -> list[Mapping[str, Any]] | None:
        async with limit:
            try:
                return [item async for item in list_items(server, path, accept)]
            except NotFound:
                return []
            except SlackwaterError as error:
                unread[check] = error.message
                return None

    nodes, classes, definitions, namespaces, sets, deployments, servers = await asyncio.gather(
        items("nodes", "api/v1/nodes"),
        items("storage", "apis/storage.k8s.io/v1/storageclasses"),
        items("kinds", "apis/apiextensions.k8s.io/v1/customresourcedefinitions"),
        items("security", "api/v1/namespaces"),
        items("writers", "apis/apps/v1/daemonsets"),
        items("writers", "apis/apps/v1/deployments"),
        items("writers", f"apis/apps/v1/namespaces/{namespace}/statefulsets"),
    )
    profiles = await _profiles(items, namespaces or ())
    release = installed_release(namespace, (*(sets or ()), *(deployments or ()), *(servers or ())))
    served, user, install = await asyncio.gather(
        _served_policies(server), _user(server), _missing(server, INSTALL_RIGHTS, namespace, limit, "")
    )
    enforced = {
        str(one["metadata"]["name"]): str((one["metadata"].get("labels") or {}).get(ENFORCED) or "")
        for one in namespaces or ()
        if one["metadata"]["name"] in (namespace, release.agents_namespace)
    }
    names: list[Mapping[str, Any]] | None = None
    service: tuple[str, ...] | None = None
    if namespace in enforced:
        names = await items("secrets", f"api/v1/namespaces/{namespace}/secrets", NAMES_ONLY)
        service = await _service_rights(server, namespace, release, limit)
    kinds, known = installed_kinds(definitions)
    return ClusterSnapshot(
        url=server.url,
        version=version,
        user=user,
        policies=served,
        missing_install_rights=install,
        missing_service_rights=service,
        storage_classes=None if classes is None else dict(_classes(classes)),
        kinds=kinds,
        known_kinds=known,
        others=(*other_programs("DaemonSet", sets or ()), *other_programs("Deployment", deployments or ())),
        lent=lent_resources(nodes or ()),
        nodes=None
        if nodes is None
        else {
            str(node["metadata"]["name"]): str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion"))
            for node in nodes
        },
        namespace=namespace,
        namespaces=enforced,
        agents_namespace=release.agents_namespace,
        needed_secrets=release.secrets,
        secrets=None if names is None else frozenset(str(name["metadata"]["name"]) for name in names),
        profiles=profiles,
        unread=unread,
    )


async def _profiles(items: ReadItems, namespaces: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
    """Nothing where there is no profile, so that pods are not read for it."""
    documents = await items("profiles", "apis/slackwater.io/v1alpha1/clustercolocationprofiles")
    if not documents:
        return ()
    pods, quotas, ranges = await asyncio.gather(
        *(items("profiles", f"api/v1/{plural}") for plural in ("pods", "resourcequotas", "limitranges"))
    )
    return tuple(profile_findings(documents, pods or (), namespaces, limits_in(quotas or (), ranges or ())))


async def list_items(server: HttpApiServer, path: str, accept: str) -> Any:
    """All items of a list, page by page."""
    page = ""
    while True:
        query = {"limit": str(PAGE), **({"continue": page} if page else {})}
        answer = await server.read(path, query, accept)
        for item in answer.get("items") or ():
            yield item
        page = str((answer.get("metadata") or {}).get("continue") or "")
        if not page:
            return


async def _served_policies(server: HttpApiServer) -> frozenset[str]:
    try:
        resources = (await server.read(ADMISSION)).get("resources") or ()
    except SlackwaterError:
        return frozenset()
    names = {str(resource.get("name")) for resource in resources}
    return frozenset(kind for kind in ("mutating", "validating") if f"{kind}admissionpolicies" in names)


async def _user(server: HttpApiServer) -> str:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        answer = await server.ask("apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    except SlackwaterError:
        return ""
    return str(((answer.get("status") or {}).get("userInfo") or {}).get("username") or "")


async def _service_rights(
    server: HttpApiServer, namespace: str, release: InstalledRelease, limit: asyncio.Semaphore
) -> tuple[str, ...] | None:
    """Rights that the account of the service lacks; None if it does not exist, or this account may not ask."""
    try:
        await server.read(f"api/v1/namespaces/{namespace}/serviceaccounts/{release.account}")
        user = f"system:serviceaccount:{namespace}:{release.account}"
        rights = [replace(one, name=release.prefix + one.name) if one.is_namespaced else one for one in SERVICE_RIGHTS]
        return await _missing(server, rights, namespace, limit, user)
    except (NotFound, Misconfigured):
        return None


async def _missing(
    server: HttpApiServer, rights: Sequence[ClusterRight], namespace: str, limit: asyncio.Semaphore, user: str
) -> tuple[str, ...]:
    """Titles of the rights that this account lacks, or the named one."""

    async def lacks(right: ClusterRight, verb: str) -> str:
        resource, _, subresource = right.resource.partition("/")
        attributes = {"group": right.group, "resource": resource, "verb": verb, "subresource": subresource}
        if (right.resource in NAMESPACED and not user) or right.is_namespaced:
            attributes["namespace"] = namespace
        if right.name:
            attributes["name"] = right.name
        kind = "SubjectAccessReview" if user else "SelfSubjectAccessReview"
        spec = {"resourceAttributes": attributes, **({"user": user} if user else {})}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        async with limit:
            answer = await server.ask(f"{REVIEWS}/{kind.lower()}s", review)
        return "" if (answer.get("status") or {}).get("allowed") else right.title(verb)

    found = await asyncio.gather(*(lacks(right, verb) for right in rights for verb in right.verbs))
    return tuple(title for title in found if title)


def _classes(classes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, bool]]:
    for one in classes:
        annotations = one["metadata"].get("annotations") or {}
        yield str(one["metadata"]["name"]), annotations.get(DEFAULT_CLASS) == "true"


def installed_kinds(
    definitions: Sequence[Mapping[str, Any]] | None,
) -> tuple[Mapping[str, InstalledKind] | None, tuple[str, ...]]:
    """The installed definitions of Slackwater's kinds by plural, and the plurals of this version."""
    from slackwater.resources.catalog import KINDS
    from slackwater.resources.crd.definition import GROUP, definition

    wanted = {kind.plural: definition(kind)["spec"]["versions"] for kind in KINDS}
    if definitions is None:
        return None, tuple(wanted)
    found = {}
    for one in definitions:
        spec = one["spec"]
        if spec["group"] == GROUP:
            plural, versions = str(spec["names"]["plural"]), spec["versions"]
            current = plural in wanted and _includes(versions, wanted[plural])
            found[plural] = InstalledKind(plural, tuple(str(version["name"]) for version in versions), current)
    return found, tuple(wanted)


def _includes(installed: Any, wanted: Any) -> bool:
    """Whether the installed definition has all that is wanted; the server adds defaults of its own."""
    if isinstance(wanted, Mapping):
        return isinstance(installed, Mapping) and all(
            key in installed and _includes(installed[key], value) for key, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        return (
            isinstance(installed, list)
            and len(installed) == len(wanted)
            and all(_includes(here, there) for here, there in zip(installed, wanted, strict=True))
        )
    return bool(installed == wanted)


def other_programs(kind: str, workloads: Sequence[Mapping[str, Any]]) -> tuple[OtherProgram, ...]:
    """Agents and managers of other products among workloads, by the names and images of their containers.

    Slackwater's own `descheduler` is none of another."""
    known = {**OTHER_AGENTS, **OTHER_MANAGERS}
    found = []
    for workload in workloads:
        if is_own(workload):
            continue
        spec, status, metadata = workload["spec"], workload.get("status") or {}, workload["metadata"]
        pod = spec["template"]["spec"]
        words = {metadata["name"], *(name for container in pod["containers"] for name in _words(container))}
        product = next((known[word] for word in known if word in words), None)
        if product is not None:
            pods = status.get("desiredNumberScheduled") if kind == "DaemonSet" else spec.get("replicas")
            name = f"{metadata.get('namespace', '')}/{metadata['name']}"
            everywhere = not pod.get("nodeSelector") and not (pod.get("affinity") or {}).get("nodeAffinity")
            found.append(OtherProgram(product, kind, name, int(pods or 0), everywhere))
    return tuple(found)


def _words(container: Mapping[str, Any]) -> Iterator[str]:
    """The name of a container and the last part of its image's name."""
    yield str(container.get("name") or "")
    yield str(container.get("image") or "").rpartition("/")[2].partition("@")[0].partition(":")[0]


def lent_resources(nodes: Sequence[Mapping[str, Any]]) -> tuple[LentResource, ...]:
    """Extended resources of colocation in the status of nodes, with their writers."""
    counts: dict[str, int] = {}
    managers: dict[str, set[str]] = {}
    for node in nodes:
        names = {
            name
            for part in ("capacity", "allocatable")
            for name in ((node.get("status") or {}).get(part) or {})
            if name.startswith(LENT_PREFIXES) or LENT_SUBSTRING in name
        }
        for name in names:
            counts[name] = counts.get(name, 0) + 1
            managers.setdefault(name, set()).update(_managers(node, name) or {UNKNOWN_WRITER})
    return tuple(LentResource(name, count, frozenset(managers[name])) for name, count in sorted(counts.items()))


def _managers(node: Mapping[str, Any], resource: str) -> set[str]:
    found = set()
    for entry in node["metadata"].get("managedFields") or ():
        status = (entry.get("fieldsV1") or {}).get("f:status") or {}
        if any(f"f:{resource}" in (status.get(f"f:{part}") or {}) for part in ("capacity", "allocatable")):
            found.add(str(entry.get("manager") or UNKNOWN_WRITER))
    return found
