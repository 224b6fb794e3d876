"""An operator's documents that expand, that are too large together, and that are none, by PUT."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx2
from tests.faults.assault.attacker import Aim, Counts, paced

PUTS_PER_SECOND = 2.0
Run = Callable[[Counts], None]


def expands(aim: Aim) -> Run:
    """Change a large PodQOS, and try larger ones and a NodeQOS of items that are none; afterwards all are deleted."""

    def run(counts: Counts) -> None:
        made, headers = documents(), {"content-type": "application/json"}
        with httpx2.Client(base_url=aim.services["ensurance"], trust_env=False, timeout=30) as client:
            for _ in paced(PUTS_PER_SECOND, aim.seconds):
                path, body = next(made)
                answer = client.put(path, content=body, headers=headers)
                counts.add(len(body))
                counts.answers[_kind_of(answer)] += 1
            for path in ("/v1/podqos/large", "/v1/podqos/larger", "/v1/nodeqos/items"):
                client.delete(path)

    return run


def _kind_of(answer: httpx2.Response) -> str:
    if answer.status_code < 400:
        return str(answer.status_code)
    return f"{answer.status_code} {answer.json().get('code', '')}"


def expression(number: int) -> dict[str, object]:
    """One condition of a PodQOS, different for each number."""
    return {"scopeName": "Namespace", "operator": "NotIn", "values": [f"namespace-{number}"]}


def pod_qos(name: str, expressions: int) -> bytes:
    """A valid PodQOS that selects what it selects without them, by so many conditions."""
    selector = {"matchExpressions": [expression(number) for number in range(expressions)]}
    spec = {"scopeSelector": selector, "allowedActions": ["throttle"]}
    document = {"apiVersion": "slackwater.io/v1alpha1", "kind": "PodQOS", "metadata": {"name": name}, "spec": spec}
    return json.dumps(document).encode()


def node_qos(name: str, rules: int) -> bytes:
    """A NodeQOS of so many rules that are none."""
    head = {"apiVersion": "slackwater.io/v1alpha1", "kind": "NodeQOS", "metadata": {"name": name}}
    return json.dumps({**head, "spec": {"rules": [{}] * rules}}).encode()


def documents() -> Iterator[tuple[str, bytes]]:
    """Endless: paths and bodies that are accepted, are too large together, or are refused for their items."""
    number = 0
    while True:
        number += 1
        yield "/v1/podqos/large", pod_qos("large", 2000 + number % 7)
        yield "/v1/podqos/larger", pod_qos("larger", 12_000)
        yield "/v1/nodeqos/items", node_qos("items", 300_000)
        yield "/v1/podqos/larger", pod_qos("larger", 3_300 + number % 7)  # just below the most bytes of a document
