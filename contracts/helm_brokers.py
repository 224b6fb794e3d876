"""What three brokers have in the chart and one has not: names of their own, and routes between them."""

from __future__ import annotations

from typing import Any

from contracts.helm_templates import TemplateText

SEVERAL = "gt (int $.Values.nats.replicas) 1"
_ONE = "/etc/nats/nats-server.conf"
Tree = dict[str, Any]


def form_cluster(spec: Tree, text: TemplateText) -> None:
    """Make the spec of the StatefulSet one of as many brokers as the values say.

    Three start together: none is ready before two of them have met. The service that governs them is fixed for the
    life of a StatefulSet, so one broker keeps its own.
    """
    spec["replicas"] = text.scalar("$.Values.nats.replicas")
    spec["serviceName"] = text.scalar('include "slackwater.brokersService" $')
    spec |= dict([text.key(f"{{{{- if {SEVERAL} }}}}", "podManagementPolicy: Parallel", "{{- end }}")])
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    args = container["args"]
    args[args.index(_ONE)] = text.scalar(f'ternary "/etc/nats/cluster.conf" "{_ONE}" ({SEVERAL})')
    routes = ("- --routes", '- {{ include "slackwater.brokerRoutes" $ | quote }}')
    args.append(text.item(f"{{{{- if {SEVERAL} }}}}", *routes, "{{- end }}"))
    container["ports"].append(
        text.item(f"{{{{- if {SEVERAL} }}}}", "- name: routes", "  containerPort: 6222", "{{- end }}")
    )
    same_pods = {"matchLabels": spec["selector"]["matchLabels"]}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": same_pods,
    }
    given = "or $.Values.nats.topologySpreadConstraints $.Values.common.topologySpreadConstraints"
    lines = text.body({"topologySpreadConstraints": [spread]})
    pod |= dict([text.key(f"{{{{- if and ({SEVERAL}) (not ({given})) }}}}", *lines, "{{- end }}")])


def broker_name(text: TemplateText) -> str:
    """The variable from which a broker of several has its name."""
    name = "- {name: SERVER_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}"
    return text.item(f"{{{{- if {SEVERAL} }}}}", name, "{{- end }}")
