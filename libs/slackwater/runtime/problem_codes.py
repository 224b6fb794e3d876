"""Every code that a problem document of the API may carry: the one list, for programs, pages and the reference.

A code is never reused for another meaning. docs/reference/problems.md and GET /v1/problems/{code} are made from this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slackwater.resources.catalog import KINDS


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """One code: the HTTP status it comes with, what it means, and what whoever gets it can do."""

    code: str
    status: int
    meaning: str
    remedy: str


def _not_found_codes() -> Iterator[ProblemCode]:
    """Of each resource kind: a document does not exist. Some kinds have the general code, which stands by itself."""
    for kind in KINDS:
        if kind.code("not_found") != "not_found":
            meaning, remedy = f"There is no {kind.name} of this name.", f"GET {kind.path} lists all; PUT makes one."
            yield ProblemCode(kind.code("not_found"), 404, meaning, remedy)


def _needed_codes() -> Iterator[ProblemCode]:
    """Of each resource kind with a parent document: it cannot be deleted."""
    for kind in KINDS:
        if kind.parent and kind.code("needed") != "conflict":
            meaning = f"The {kind.name} `{kind.parent}` cannot be deleted."
            remedy = f"{kind.parent_remedy[:1].upper()}{kind.parent_remedy[1:]}. Any other can be deleted."
            yield ProblemCode(kind.code("needed"), 409, meaning, remedy)


_CODES = (
    ProblemCode(
        "bad_request",
        400,
        "The request is not HTTP or JSON that can be read.",
        "Look at `detail`; send a well-formed request.",
    ),
    ProblemCode(
        "invalid_character",
        400,
        "A path or query parameter holds a NUL character, which no name can.",
        "Leave it out of the parameter that `field` names.",
    ),
    ProblemCode(
        "unknown_parameter",
        400,
        "The route has no query parameter of this name.",
        "Choose from those that `detail` lists; a misspelt one would have been ignored.",
    ),
    ProblemCode(
        "unknown_event_type",
        400,
        "A pattern in `types` names no event type.",
        "Choose from the types that `detail` lists, or a pattern of them such as `decision.*`.",
    ),
    ProblemCode(
        "invalid_position",
        400,
        "Last-Event-ID (or `after`) is not an event id of /v1/stream.",
        "Send back an id as it came, or leave it out to begin now.",
    ),
    ProblemCode(
        "invalid_continue",
        400,
        "The continue token (or `cursor`) was not issued for this list.",
        "Send back the one of the page before as it came, to the same list; or leave it out for the first page.",
    ),
    ProblemCode(
        "unauthorized",
        401,
        "Nobody was recognised: no token, or one that is not known here.",
        "Send the header `Authorization: Bearer TOKEN`; the CLI reads SLACKWATER_TOKEN.",
    ),
    ProblemCode(
        "forbidden",
        403,
        "The caller is known, but its role does not reach this far.",
        "Use a token with the role that `detail` names; `x-required-role` in the API description says it too.",
    ),
    ProblemCode(
        "not_found",
        404,
        "There is nothing under this path.",
        "Compare the path with the API description at /v1/openapi.json.",
    ),
    ProblemCode(
        "node_not_found",
        404,
        "No node of this name has been heard of.",
        "`detail` lists names that come close; GET /v1/nodes lists all.",
    ),
    ProblemCode(
        "pod_not_found",
        404,
        "No pod of this name or uid runs, and no decision that is kept has looked at one.",
        "`detail` lists names that come close; GET /v1/pods lists those that run.",
    ),
    ProblemCode(
        "pool_not_found",
        404,
        "No node of this pool has been heard of.",
        "`detail` lists names that come close; GET /v1/nodes shows the pool of every node.",
    ),
    ProblemCode(
        "offer_not_found",
        404,
        "The node has offered nothing yet.",
        "Wait for its first report and prediction; an offer follows by itself.",
    ),
    ProblemCode(
        "decision_not_found",
        404,
        "No decision of this id is kept (they are for 30 days, unless set otherwise).",
        "List them with GET /v1/decisions.",
    ),
    ProblemCode(
        "subject_not_found",
        404,
        "Nothing has been decided about this subject of the node.",
        "`detail` lists the subjects that are known.",
    ),
    ProblemCode(
        "nothing_in_force",
        404,
        "No decision about this subject was in force at the time asked about.",
        "`detail` says whether none had been made yet or the strategy gave mid no share; ask for another time.",
    ),
    ProblemCode(
        "dead_letter_not_found",
        404,
        "There is no dead letter of this number (any more).",
        "List them with GET /v1/deadletters.",
    ),
    ProblemCode(
        "block_not_found",
        404,
        "The agent of this node is not blocked.",
        "GET /v1/blocks lists the agents that are; PUT blocks one.",
    ),
    ProblemCode(
        "quarantine_item_not_found",
        404,
        "There is no item of this id in the service's quarantine (any more).",
        "List them with GET /v1/quarantine/SERVICE.",
    ),
    *_not_found_codes(),
    ProblemCode(
        "predictor_not_found",
        404,
        "No model of peaks has this name.",
        "GET /v1/predictors lists all; one of your own is installed with the prediction service.",
    ),
    ProblemCode(
        "problem_not_found",
        404,
        "There is no problem of this code.",
        "GET /v1/problems lists all.",
    ),
    ProblemCode(
        "method_not_allowed",
        405,
        "The path exists, but not with this method.",
        "The header `Allow` lists the methods.",
    ),
    ProblemCode(
        "conflict",
        409,
        "The object changed since it was read.",
        "Read it again, apply your change to that, and write again.",
    ),
    ProblemCode(
        "fenced",
        409,
        "This replica has just lost its part of the fleet to another one; nothing was written.",
        "Send the same request again in a few seconds: the new owner carries it out.",
    ),
    *_needed_codes(),
    ProblemCode(
        "node_pool_taken",
        409,
        "Another document of the same kind has this pool; of this kind a pool has at most one.",
        "Change the one that `detail` names, or delete it first.",
    ),
    ProblemCode(
        "already_replayed",
        409,
        "The dead letter was replayed before, or is being replayed just now.",
        "Look at its replays; `again=true` replays it once more.",
    ),
    ProblemCode(
        "superseded",
        409,
        "A newer message is in force where only the last one counts.",
        "Leave it: replaying would put the old state back.",
    ),
    ProblemCode(
        "not_replayable",
        409,
        "The dead letter holds a command to a node, which only its writer gives.",
        "Leave it, and find out who wrote it: no consumer of Slackwater buries such a message.",
    ),
    ProblemCode(
        "no_subject",
        409,
        "The dead letter does not say which subject it came from.",
        "It can be read, but not replayed.",
    ),
    ProblemCode(
        "other_site",
        409,
        "A browser sent the request from a page of another site.",
        "Use the page of this server, or a client with a token.",
    ),
    ProblemCode(
        "precondition_failed",
        412,
        "If-Match names another ETag than the present one: somebody else wrote in between.",
        "Read it again, apply your change to that, and write with the new ETag.",
    ),
    ProblemCode(
        "body_too_large",
        413,
        "The body has more bytes than any document of ours.",
        "Send fewer documents at once.",
    ),
    ProblemCode(
        "misdirected_request",
        421,
        "Without a token this server answers only to its local names.",
        "Use 127.0.0.1 or localhost, or set a token.",
    ),
    ProblemCode(
        "invalid_input",
        422,
        "A value will never be accepted.",
        "Correct the field that `field` or `errors` names; the message says what is allowed.",
    ),
    ProblemCode(
        "predictor_unknown",
        422,
        "No model of peaks has the name that the policy gives.",
        "`detail` lists the names; GET /v1/predictors describes them.",
    ),
    ProblemCode(
        "predictor_settings",
        422,
        "A setting of a model has a value, or a name, that the model does not allow.",
        "`detail` names it; GET /v1/predictors/{name} says what is allowed.",
    ),
    ProblemCode(
        "unstorable",
        422,
        "A value is of a form that the database cannot hold.",
        "Correct the value; `detail` says which kind it is.",
    ),
    ProblemCode(
        "pod_ambiguous",
        422,
        "Several pods have this name.",
        "`detail` lists them; say which by `node`, by `namespace`, or by the uid in place of the name.",
    ),
    ProblemCode(
        "invalid_time",
        422,
        "A time parameter is not a time, or a span ends before it begins.",
        "Send RFC 3339 such as 2026-01-05T10:32:00Z, or a time ago such as 90s, 5m, 2h, 1d.",
    ),
    ProblemCode(
        "internal",
        500,
        "A defect of ours.",
        "The log of the server has the details; please report it.",
    ),
    ProblemCode(
        "misconfigured",
        500,
        "The machine or the settings of the server do not allow what was asked.",
        "An operator must change what `detail` names.",
    ),
    ProblemCode(
        "predictor_unusable",
        500,
        "A model that another distribution brings cannot be loaded or made in the prediction service.",
        "`detail` says why; install it whole, or choose another model.",
    ),
    ProblemCode(
        "predictor_twice",
        500,
        "Two distributions bring a model of the same name.",
        "Uninstall one of the two that `detail` names.",
    ),
    ProblemCode(
        "unavailable",
        503,
        "A dependency (PostgreSQL, NATS) does not answer now.",
        "Try again after the seconds that `Retry-After` says; /readyz?verbose names the dependency.",
    ),
    ProblemCode(
        "too_many_streams",
        503,
        "All streams that this console gives are open.",
        "Close one, ask another replica, or raise SLACKWATER_CONSOLE_STREAMS.",
    ),
)

PROBLEMS: Mapping[str, ProblemCode] = {each.code: each for each in _CODES}


def type_of(code: str) -> str:
    """The `type` of a problem document: a page that this server itself serves."""
    return f"/v1/problems/{code}" if code in PROBLEMS else "about:blank"


def reference_page() -> str:
    """docs/reference/problems.md."""
    rows = [f"| `{each.code}` | {each.status} | {each.meaning} | {each.remedy} |" for each in _CODES]
    return "\n".join(
        [
            "# Problems",
            "",
            "Generated by contracts/generate.py from slackwater.runtime.problem_codes.",
            "",
            "Every error answer of the API is a problem document (RFC 9457, `application/problem+json`). `code` is",
            "stable and for programs; `detail` is for people and names the field, the value and what is allowed;",
            "`field` or `errors` tell which parameter. `type` is a page of the server: `GET /v1/problems/{code}`.",
            "",
            "| code | status | what it means | what to do |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
