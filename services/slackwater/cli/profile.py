"""What pods become by profiles when Kubernetes creates them: `slackwater profile preview -f FILE`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.output import Format, errors_to_stderr, message, print_object

if TYPE_CHECKING:
    from slackwater.profiles.profile import ClusterColocationProfile


LIMITING = ("ResourceQuota", "LimitRange")


class ProfileAction(StrEnum):
    """What is done with profiles."""

    PREVIEW = "preview"


def command(
    action: Annotated[ProfileAction, typer.Argument(help="preview: show what pods would become; nothing is changed.")],
    files: Annotated[
        list[Path],
        typer.Option(
            "-f", "--filename", help="YAML with pods, workloads with a pod template, ResourceQuotas, LimitRanges"
        ),
    ],
    profiles: Annotated[
        list[Path] | None,
        typer.Option("--profile", help="file with ClusterColocationProfiles; default: those of the server"),
    ] = None,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="of pods whose file names none")] = "default",
    namespace_labels: Annotated[
        list[str] | None, typer.Option("--namespace-label", metavar="KEY=VALUE", help="label of the namespace")
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="table: what differs; json and yaml: the whole pods")
    ] = Format.TABLE,
    server: Annotated[
        str | None, typer.Option("--server", help="URL; default: the instance of this state directory")
    ] = None,
) -> None:
    """Show what pods would become by the profiles that select them.

    Example: `slackwater profile preview -f pod.yaml --profile profile.yaml`
    """
    from slackwater.cli.cluster_profiles import limits_in
    from slackwater.profiles.limits import effect_of_limits
    from slackwater.profiles.mutation import SYSTEM_NAMESPACES, mutate_all, selects

    with errors_to_stderr():
        known = _of_files(profiles) if profiles else _of_server(server)
        labels = dict(_label(text) for text in namespace_labels or ())
        _name_shares(known)
        answers = list[Mapping[str, Any]]()
        limited = limits_in(*(_of_kind(files, kind) for kind in LIMITING))
        for title, pod in _pods(files):
            home = str((pod.get("metadata") or {}).get("namespace") or namespace)
            after = mutate_all(pod, known, home, labels, limited=limited)
            answers.append(after)
            chosen = [
                profile.name for profile in known if selects(profile, pod, home, labels, SYSTEM_NAMESPACES, limited)
            ]
            message(f"{title}: {', '.join(chosen) or _why_none(pod)}")
            here = {name: what for name, what in limited.items() if name == home}
            for profile in (one for one in known if here and selects(one, pod, home, labels)):
                message(f"{title}: {profile.name}: {effect_of_limits(profile, here, {home: labels})}")
            for line in _kept(pod, [profile for profile in known if profile.name in chosen]):
                message(f"{title}: {line}")
            if output in (Format.TABLE, Format.WIDE):
                _print_difference(title, pod, after)
        if output not in (Format.TABLE, Format.WIDE):
            print_object(answers[0] if len(answers) == 1 else {"items": answers}, output)


def _of_files(files: Sequence[Path]) -> Sequence[ClusterColocationProfile]:
    """Raises InvalidInput for a document that is no profile, or a wrong one."""
    from slackwater.cli.documents import documents
    from slackwater.model.errors import InvalidInput
    from slackwater.profiles.profile import ClusterColocationProfile
    from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE

    found = []
    for document in documents(list(files)):
        if document.kind is not CLUSTER_COLOCATION_PROFILE:
            raise InvalidInput(f"{document.origin}: kind: {document.kind.name} is no profile", field="kind")
        found.append(ClusterColocationProfile.parse(document.body))
    return found


def _of_server(server: str | None) -> Sequence[ClusterColocationProfile]:
    from slackwater.cli.client import reading
    from slackwater.profiles.profile import ClusterColocationProfile
    from slackwater.resources.kinds.cluster_colocation_profile import CLUSTER_COLOCATION_PROFILE

    with reading(server) as reader:
        items = reader.get(CLUSTER_COLOCATION_PROFILE.path)["items"]
    return [ClusterColocationProfile.parse(dict(item)) for item in items]


def _label(text: str) -> tuple[str, str]:
    from slackwater.model.errors import InvalidInput

    key, separator, value = text.partition("=")
    if not key or not separator:
        raise InvalidInput(f"--namespace-label: {text!r} is no KEY=VALUE", field="namespace-label")
    return key, value


def _pods(files: Sequence[Path]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pod of every document: itself, or the one of its template. Raises InvalidInput for one without."""
    from slackwater.model.errors import InvalidInput
    from slackwater.runtime.yaml_files import yaml_documents

    for file in files:
        for origin, body in yaml_documents(file):
            document = body if isinstance(body, dict) else {}
            if document.get("kind") in LIMITING:
                continue
            kind, metadata = str(document.get("kind") or ""), document.get("metadata") or {}
            pod = document if kind == "Pod" else _template(document)
            if pod is None:
                raise InvalidInput(f"{origin}: kind: {kind!r} is no pod and has no pod template", field="kind")
            if kind != "Pod":
                own = dict(pod.get("metadata") or {})
                place = {"namespace": metadata["namespace"]} if metadata.get("namespace") else {}
                pod = {**pod, "metadata": {**own, **place, "generateName": f"{metadata.get('name', '')}-"}}
            yield f"{kind.lower()}/{metadata.get('name', '')}", pod


def _of_kind(files: Sequence[Path], kind: str) -> list[Mapping[str, Any]]:
    """The objects of a kind. Raises InvalidInput for one without a namespace."""
    from slackwater.model.errors import InvalidInput
    from slackwater.runtime.yaml_files import yaml_documents

    found = list[Mapping[str, Any]]()
    for file in files:
        for origin, body in yaml_documents(file):
            if isinstance(body, dict) and body.get("kind") == kind:
                if not (body.get("metadata") or {}).get("namespace"):
                    raise InvalidInput(f"{origin}: metadata.namespace is required", field="metadata.namespace")
                found.append(body)
    return found


def _template(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """`spec.template`, of a CronJob that of its Jobs."""
    spec = document.get("spec") or {}
    spec = (spec.get("jobTemplate") or {}).get("spec") or spec
    template = spec.get("template")
    return dict(template) if isinstance(template, dict) and template.get("spec") else None


def _why_none(pod: Mapping[str, Any]) -> str:
    from slackwater.profiles.mutation import is_critical

    return "no profile changes a pod that is critical for the system" if is_critical(pod) else "no profile selects it"


def _kept(pod: Mapping[str, Any], chosen: Sequence[ClusterColocationProfile]) -> Iterator[str]:
    """What the chosen profiles leave as it is although they rewrite resources, and why."""
    from slackwater.profiles.mutation import CONTAINERS, kept_because, mutate

    for profile in sorted(chosen, key=lambda profile: profile.name):
        tier, spec = profile.spec.rewritten_tier, pod.get("spec") or {}
        if tier is not None and spec.get("resources"):
            yield f"{profile.name} keeps all resources: those of the whole pod have no counterpart"
        elif tier is not None:
            for container in (one for field in CONTAINERS for one in spec.get(field) or ()):
                kept = kept_because(container.get("resources") or {}, tier, profile.spec.resource_domain)
                for amount, why in kept.items():
                    yield f"{profile.name} keeps {amount} of container {container.get('name')}: {why}"
        pod = mutate(pod, profile)


def _name_shares(profiles: Sequence[ClusterColocationProfile]) -> None:
    """A share is drawn by the controller's uid, which a file does not have."""
    for profile in profiles:
        if profile.spec.probability not in (0, 100):
            message(f"{profile.name} changes {profile.spec.probability} % of workloads: drawn here by the pod's name")


def _print_difference(title: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    import difflib

    import yaml

    old, new = (yaml.safe_dump(dict(pod), allow_unicode=True).splitlines() for pod in (before, after))
    for line in difflib.unified_diff(old, new, f"{title} (file)", f"{title} (created)", lineterm=""):
        typer.echo(line)
