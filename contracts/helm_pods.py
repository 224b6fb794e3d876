"""Pod templates of the manifests as the chart has them: what values of a workload change in its pods."""

from __future__ import annotations

from typing import Any

from contracts.helm_brokers import broker_name
from contracts.helm_component import Component
from contracts.helm_templates import TemplateText, lines_of

PLACEMENT = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "topologySpreadConstraints")
LOG_LEVEL = "SLACKWATER_LOG_LEVEL"
DOCUMENT_OWNERS = frozenset({"colocation", "descheduler", "ensurance", "migration", "prediction", "quota"})
"""Services that own kinds of documents, as deploy/kubernetes/documents has them: a test compares."""
Tree = dict[str, Any]


def fill_pod(template: Tree, component: Component, text: TemplateText) -> None:
    """Put expressions of the values into a pod template."""
    labels = template["metadata"]["labels"]
    labels |= dict([_included(text, "slackwater.podLabels", component)])
    annotations = template["metadata"].pop("annotations", {})
    if annotations:
        more = dict([_included(text, "slackwater.podAnnotations", component)])
        template["metadata"]["annotations"] = {**annotations, **more}
    else:
        template["metadata"] |= _optional_annotations(component, text)
    _spec(template["spec"], component, text)


def _optional_annotations(component: Component, text: TemplateText) -> Tree:
    """Without annotations of its own the pod has the key only where values give some."""
    lines = (
        f'{{{{- with include "slackwater.podAnnotations" {component.includes} }}}}',
        "annotations:",
        "  {{- . | nindent {n2} }}",
        "{{- end }}",
    )
    return dict([text.key(*lines)])


def _included(text: TemplateText, helper: str, component: Component) -> tuple[str, None]:
    """Lines that a helper yields, or none."""
    return text.key(f'{{{{- with include "{helper}" {component.includes} }}}}', "{{- . | nindent {n} }}", "{{- end }}")


def _items(text: TemplateText, helper: str, component: Component) -> str:
    return text.item(f'{{{{- with include "{helper}" {component.includes} }}}}', "{{- . | nindent {n} }}", "{{- end }}")


def _spec(spec: Tree, component: Component, text: TemplateText) -> None:
    path = component.path
    spread = spec.get("topologySpreadConstraints")
    for key in PLACEMENT:
        spec.pop(key, None)
    (container,) = spec["containers"]
    security = spec.pop("securityContext", None)
    head = dict([_included(text, "slackwater.placement", component)])
    if spread:
        name = "topologySpreadConstraints"
        unless = f"{{{{- if not (or $.Values.{path}.{name} $.Values.common.{name}) }}}}"
        head |= dict([text.key(unless, *text.body({"topologySpreadConstraints": spread}), "{{- end }}")])
    if security is not None:
        given = (
            "{{- with $.Values.common.podSecurityContext }}",
            "securityContext:",
            "  {{- toYaml . | nindent {n2} }}",
        )
        head |= dict([text.key(*given, "{{- else }}", *lines_of({"securityContext": security}), "{{- end }}")])
    containers, beside = spec.pop("containers"), spec.pop("initContainers", [])
    volumes = spec.pop("volumes")
    for one in beside:
        _image(one, text, component.of_services)
    spec |= {**head, **({"initContainers": beside} if beside else {}), "containers": containers}
    spec["volumes"] = [
        *(_volume(one, component, text) for one in volumes),
        _items(text, "slackwater.extraVolumes", component),
    ]
    _container(container, component, text)


def _volume(volume: Tree, component: Component, text: TemplateText) -> Tree | str:
    if component.path == "agent" and volume["name"] == "credentials":
        return text.item('{{- include "slackwater.agentAccess" $ | nindent {n} }}')
    if component.path == "nats" and volume["name"] == "config":
        return text.item('{{- include "slackwater.natsConfig" $ | nindent {n} }}')
    if "secret" not in volume:
        return volume
    name = volume["secret"]["secretName"]
    made = f'$.Values.{component.path}.secretName | default (include "slackwater.named" (list $ "{name}"))'
    return {**volume, "secret": {**volume["secret"], "secretName": text.scalar(made)}}


def _image(container: Tree, text: TemplateText, includes: str) -> None:
    """The image and how it is pulled, after the name."""
    policy = text.scalar(f'include "slackwater.pullPolicy" {includes}')
    image = text.scalar(f'include "slackwater.image" {includes} | quote')
    rest = {key: value for key, value in container.items() if key not in ("name", "image")}
    ordered = {"name": container["name"], "image": image, "imagePullPolicy": policy}
    container.clear()
    container |= ordered | rest


def _container(container: Tree, component: Component, text: TemplateText) -> None:
    path = component.path
    container["resources"] = dict([text.key(f"{{{{- toYaml $.Values.{path}.resources | nindent {{n}} }}}}")])
    _image(container, text, component.includes)
    if "args" in container:
        container["args"] = [*container["args"], _items(text, "slackwater.extraArgs", component)]
    if path == "agent":
        port = "  - {name: metrics, containerPort: {{ .port }}}"
        condition = "{{- with $.Values.agent.metrics }}{{- if .enabled }}"
        container |= dict([text.key(condition, "ports:", port, "{{- end }}{{- end }}")])
    container["env"] = dict([_environment(container.get("env", []), component, text)])
    container["volumeMounts"] = [*container["volumeMounts"], _items(text, "slackwater.extraVolumeMounts", component)]


def _environment(variables: list[Tree], component: Component, text: TemplateText) -> tuple[str, None]:
    """The variables of the manifest, then those of the values: one of the same name goes before it."""
    own: list[Tree | str] = []
    for one in variables:
        value = text.scalar("$.Values.logLevel") if one["name"] == LOG_LEVEL else one.get("value")
        own.append({**one, "value": value} if value is not None else one)
    own += _more_variables(component, text)
    name = f"slackwater.env.{component.name}"
    text.heads += [f'{{{{- define "{name}" }}}}', *text.lines(own), "{{- end }}"]
    argument = f'(dict "root" $ "own" $.Values.{component.path} "given" (include "{name}" $))'
    return text.key(f'{{{{- include "slackwater.env" {argument} | nindent {{n}} }}}}')


def _more_variables(component: Component, text: TemplateText) -> list[str]:
    """What documents/kustomization.yaml and values of features add."""
    found = [broker_name(text)] if component.path == "nats" else []
    if component.path in ("kubernetes", "agent"):
        found.append(text.item(f'{{{{ include "slackwater.env.{component.path}Features" $ }}}}'))
    if component.name == "ensurance":
        mode = "- {name: SLACKWATER_ENSURANCE_MODE, value: {{ . }}}"
        found.append(text.item("{{- with $.Values.mode }}", mode, "{{- end }}"))
    if component.path.startswith("services.") and component.name in DOCUMENT_OWNERS:
        source = "- {name: SLACKWATER_RESOURCES_SOURCE, value: kubernetes}"
        condition = "{{- if and $.Values.kubernetes.enabled $.Values.kubernetes.documents }}"
        found.append(text.item(condition, source, "{{- end }}"))
    return found
