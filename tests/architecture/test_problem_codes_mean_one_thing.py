"""Each problem code is raised for what its explanation says, as far as the source shows it."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import NamedTuple

import pytest
from sources import Source, sources

from slackwater.runtime.problem_codes import PROBLEMS

STATUSES_OF: Mapping[str, Collection[int]] = {
    "NotFound": {404},
    "Conflict": {409},
    "InvalidInput": {400, 422},
    "Misconfigured": {500},
    "Unavailable": {503},
}
"""The statuses that fit each class of the error tree: the class decides the reaction, and so must the code."""

SERVICE_OF_KIND: Mapping[str, str] = {
    "ColocationStrategy": "colocation",
    "ClusterColocationProfile": "colocation",
    "PredictPolicy": "prediction",
    "NodeQOS": "ensurance",
    "PodQOS": "ensurance",
    "AvoidanceAction": "ensurance",
    "Autonomy": "ensurance",
    "ElasticQuota": "quota",
    "QuotaProfile": "quota",
    "DeschedulerProfile": "descheduler",
}
OF_A_KIND = tuple(f"{kind.lower()}_{end}" for kind in SERVICE_OF_KIND for end in ("needed", "not_found"))
"""Made from the name of a kind where it is declared."""
OF_THE_FRAMEWORK = {HTTPStatus(status).name.lower() for status in (400, 404, 405)}


class Raised(NamedTuple):
    """One place where an error or a problem document with a literal code is made."""

    place: str
    service: str
    code: str
    statuses: Collection[int]


def raised_in(source: Source) -> Iterator[Raised]:
    """Calls of an error class with `code="…"`, and of `problem(status, "code", …)`."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).rpartition(".")[2]
        if name == "problem" and len(node.args) > 1:
            status, code = (
                argument.value if isinstance(argument, ast.Constant) else None for argument in node.args[:2]
            )
            statuses: Collection[int] = {status} if isinstance(status, int) else ()
        elif name in STATUSES_OF:
            code = next((_text(keyword.value) for keyword in node.keywords if keyword.arg == "code"), None)
            statuses = STATUSES_OF[name]
        else:
            continue
        if isinstance(code, str):
            service = source.part if source.root == "services" else ""
            yield Raised(f"{source.path}:{node.lineno}", service, code, statuses)


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def mismatches(source: Source) -> Iterator[str]:
    """Where a registered code is raised with another status, or for another kind, than it is explained with."""
    for raised in raised_in(source):
        known = PROBLEMS.get(raised.code)
        if known is None:
            continue  # never leaves the process: see tests/unit/runtime/test_problem_codes.py
        if raised.statuses and known.status not in raised.statuses:
            yield f"{raised.place}: {raised.code} is explained with {known.status}"
        for kind, service in SERVICE_OF_KIND.items():
            if kind in known.meaning and raised.service not in {service, ""}:
                yield f"{raised.place}: {raised.code} is explained for {kind}, a kind of {service}"


def test_codes_are_raised_with_the_status_and_for_the_kind_of_their_explanation() -> None:
    assert [problem for source in sources("services", "libs") for problem in mismatches(source)] == []


def test_every_code_is_raised_somewhere() -> None:
    texts = {
        text
        for source in sources("services", "libs")
        if source.path.name != "problem_codes.py"
        for text in source.strings
    }
    assert set(PROBLEMS) - texts - set(OF_A_KIND) - OF_THE_FRAMEWORK == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise InvalidInput('x', code='node_not_found')", "explained with 404"),
        ("raise errors.Conflict('x', code='predictpolicy_needed')", "explained for PredictPolicy"),
        ("return problem(409, 'body_too_large', 'x')", "explained with 413"),
    ],
)
def test_a_code_raised_for_something_else_is_found(text: str, said: str) -> None:
    planted = Source(PurePosixPath("services/slackwater/ensurance/usecases/planted.py"), text)
    (found,) = mismatches(planted)
    assert said in found
