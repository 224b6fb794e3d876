"""Every code of the API's problem documents: the single list for programs, pages and the reference.

A code is never reused for another meaning. docs/reference/problems.md and GET /v1/problems/{code}
are generated from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from slackwater.resources.catalog import KINDS


@dataclass(frozen=True, slots=True)
class ProblemCode:
    """One code: its HTTP status, its meaning, and the remedy."""

    code: str
    status: int
    meaning: str
    remedy: str


def _not_found_codes() -> Iterator[ProblemCode]:
    """Yields the not-found code of each resource kind; kinds with the general code are skipped."""
    for kind in KINDS:
        if kind.code("not_found") != "not_found":
            meaning, remedy = f"No {kind.name} has this name.", f"GET {kind.path} lists all; PUT creates one."
            yield ProblemCode(kind.code("not_found"), 404, meaning, remedy)


def _needed_codes() -> Iterator[ProblemCode]:
    """Yields, for each resource kind with a parent document, the code for deleting the parent."""
    for kind in KINDS:
        if kind.parent and kind.code("needed") != "conflict":
            meaning = f"The {kind.name} `{kind.parent}` cannot be deleted."
            remedy = f"{kind.parent_remedy[:1].upper()}{kind.parent_remedy[1:]}. Any other can be deleted."
            yield ProblemCode(kind.code("needed"), 409, meaning, remedy)


_CODES = (
    ProblemCode("bad_request", 400, "The request is not valid HTTP or JSON.", "See `detail`."),
    ProblemCode(
        "invalid_character",
        400,
        "A path or query parameter contains a NUL character.",
        "Remove it from the parameter in `field`.",
    ),
    ProblemCode("unknown_parameter", 400, "No query parameter has this name.", "`detail` lists all."),
    ProblemCode(
        "unknown_event_type",
        400,
        "A pattern in `types` names no event type.",
        "`detail` lists types; a pattern is `decision.*`.",
    ),
    ProblemCode(
        "invalid_position",
        400,
        "Last-Event-ID (or `after`) is not an event id of /v1/stream.",
        "Send one as received, or none to begin now.",
    ),
    ProblemCode(
        "invalid_continue",
        400,
        "The continue token (or `cursor`) is not of this list.",
        "Send that of its previous page, or none for the first.",
    ),
    ProblemCode(
        "unauthorized",
        401,
        "No token, or an unknown one.",
        "Send `Authorization: Bearer TOKEN`; the CLI reads SLACKWATER_TOKEN.",
    ),
    ProblemCode(
        "forbidden",
        403,
        "The caller's role does not allow this.",
        "`detail` names the role (`x-required-role` in the API description).",
    ),
    ProblemCode("not_found", 404, "Nothing exists under this path.", "/v1/openapi.json has all paths."),
    ProblemCode(
        "node_not_found",
        404,
        "No such node is known.",
        "`detail` lists similar names; GET /v1/nodes lists all.",
    ),
    ProblemCode(
        "pod_not_found",
        404,
        "No such pod (name or uid) runs or is in a stored decision.",
        "`detail` lists similar names; GET /v1/pods lists running pods.",
    ),
    ProblemCode(
        "pool_not_found",
        404,
        "No node of this pool is known.",
        "`detail` lists similar names; GET /v1/nodes shows each node's pool.",
    ),
    ProblemCode(
        "offer_not_found",
        404,
        "The node has offered nothing yet.",
        "Wait for its first report and prediction.",
    ),
    ProblemCode(
        "claim_not_found",
        404,
        "The quota has no such claim, or it ended long ago.",
        "GET /v1/quotas/{quota}/claims lists all that have not ended.",
    ),
    ProblemCode(
        "plan_not_found",
        404,
        "No plan of moves has this id, or it is older than a day.",
        "GET /v1/move-plans lists all; POST there makes one.",
    ),
    ProblemCode(
        "plan_blocked",
        409,
        "The moves of the plan could not be carried out: `detail` names the pools whose mode evicts nothing.",
        "Give the pool an Autonomy with mode evict, and apply the plan again.",
    ),
    ProblemCode(
        "plan_stale",
        409,
        "The cluster, or the profile, is no longer what the plan assumed: `detail` says what changed.",
        "Make a new plan: POST /v1/move-plans.",
    ),
    ProblemCode(
        "decision_not_found",
        404,
        "No such decision is stored (30 days by default).",
        "GET /v1/decisions lists all.",
    ),
    ProblemCode(
        "subject_not_found",
        404,
        "Nothing was decided about this subject of the node.",
        "`detail` lists the known subjects.",
    ),
    ProblemCode(
        "nothing_in_force",
        404,
        "No decision about this subject was in force then.",
        "`detail` says whether none existed yet or the strategy gave mid no share.",
    ),
    ProblemCode(
        "dead_letter_not_found",
        404,
        "No such dead letter exists (any more).",
        "GET /v1/deadletters lists all.",
    ),
    ProblemCode(
        "node_reports",
        409,
        "The node is not lost: its next report would bring it back.",
        "Stop its agent, wait until it is lost, and delete it again.",
    ),
    ProblemCode(
        "block_not_found",
        404,
        "The node's agent is not blocked.",
        "GET /v1/blocks lists all; PUT blocks one.",
    ),
    ProblemCode(
        "quarantine_item_not_found",
        404,
        "No such item is in quarantine (any more).",
        "GET /v1/quarantine/SERVICE lists all.",
    ),
    *_not_found_codes(),
    ProblemCode(
        "predictor_not_found",
        404,
        "No model of peaks has this name.",
        "GET /v1/predictors lists all; own ones are installed with the prediction service.",
    ),
    ProblemCode("problem_not_found", 404, "No problem has this code.", "GET /v1/problems lists all."),
    ProblemCode("method_not_allowed", 405, "The path exists, but not with this method.", "`Allow` lists the methods."),
    ProblemCode(
        "request_timeout",
        408,
        "The headers or the body of the request did not arrive in time.",
        "Send the request again; `detail` says how long the server waits.",
    ),
    ProblemCode("conflict", 409, "The object changed since it was read.", "Read it again and repeat the change."),
    ProblemCode(
        "fenced",
        409,
        "This replica has just lost its partition; nothing was written.",
        "Repeat in a few seconds.",
    ),
    *_needed_codes(),
    ProblemCode(
        "documents_from_cluster",
        409,
        "The documents of this instance come from the custom resources of a Kubernetes cluster.",
        "Change the resource there with kubectl; SLACKWATER_RESOURCES_SOURCE=database makes this API their source.",
    ),
    ProblemCode(
        "node_pool_taken",
        409,
        "Another document of this kind has this pool.",
        "Change or delete the one that `detail` names.",
    ),
    ProblemCode(
        "quota_history_not_found",
        404,
        "No state of this quota is kept from that moment.",
        "Ask for a later one; SLACKWATER_QUOTA_KEEP_HISTORY_SECONDS says how long states are kept.",
    ),
    ProblemCode(
        "quota_contended",
        409,
        "Other replicas changed the tree of the quota each time; nothing was done.",
        "Repeat the request with the same claim id.",
    ),
    ProblemCode(
        "queue_full",
        409,
        "As many claims of the quota wait as may.",
        "Withdraw some that wait, or ask again once fewer do; `detail` says how many may.",
    ),
    ProblemCode(
        "quota_tree_broken",
        409,
        "A quota of the tree names a parent that is not there.",
        "Mend the quota that `detail` names.",
    ),
    ProblemCode("claim_exists", 409, "Another claim has this id.", "Give each claim an id of its own."),
    ProblemCode(
        "claim_not_admitted",
        409,
        "The claim waits, or has ended.",
        "Start what is admitted; GET the claim tells its state.",
    ),
    ProblemCode(
        "quota_in_use",
        409,
        "The quota has children or claims.",
        "`detail` says how many; move, release or delete them first.",
    ),
    ProblemCode(
        "quota_tree_taken",
        409,
        "Another QuotaProfile has this tree.",
        "Name another tree, or change the profile in `detail`.",
    ),
    ProblemCode(
        "migration_exists",
        409,
        "Another job has this name, or a job would get another pod or mode.",
        "Choose another name; a job keeps its pod and its mode for life.",
    ),
    ProblemCode("reservation_exists", 409, "The reservation of a move has this name.", "Choose another name."),
    ProblemCode(
        "reservation_is_placed",
        409,
        "The reservation is placed or has ended, and keeps the spec that it was placed with.",
        "Delete it, then apply it again.",
    ),
    ProblemCode(
        "reservation_of_a_move",
        409,
        "The reservation belongs to a move.",
        "Delete the PodMigrationJob in its status: that releases it.",
    ),
    ProblemCode("already_replayed", 409, "The dead letter was or is being replayed.", "`again=true` repeats it."),
    ProblemCode(
        "superseded",
        409,
        "A newer message is in force where only the last one counts.",
        "A replay would restore old state.",
    ),
    ProblemCode(
        "not_replayable",
        409,
        "The dead letter is a command to a node; only its writer may publish it.",
        "Find its source: no Slackwater consumer dead-letters one.",
    ),
    ProblemCode("no_subject", 409, "The dead letter lacks its original subject.", "It can be read, but not replayed."),
    ProblemCode(
        "other_site",
        409,
        "A browser sent a change from a page of another site or port.",
        "Use this server's own page, or send `Authorization: Bearer TOKEN`.",
    ),
    ProblemCode(
        "precondition_failed",
        412,
        "If-Match is not the current ETag.",
        "Read it again and write with the new ETag.",
    ),
    ProblemCode("body_too_large", 413, "The body is too large.", "Send fewer or smaller documents."),
    ProblemCode(
        "too_many_large_bodies",
        429,
        "Large bodies are handled one at a time, and too many of them wait.",
        "Retry after `Retry-After`.",
    ),
    ProblemCode(
        "rules_too_large",
        422,
        "All documents together would make the intent of a node larger than the broker takes.",
        "Use fewer expressions or rules; `detail` has the size and the limit.",
    ),
    ProblemCode(
        "beyond_budget",
        422,
        "The body holds more than is read: levels, items of a list, fields of an object, or lists and objects.",
        "Send fewer documents at once; `detail` names the limit.",
    ),
    ProblemCode(
        "misdirected_request",
        421,
        "Without a token, only local names are answered.",
        "Use 127.0.0.1, localhost, or a token.",
    ),
    ProblemCode("invalid_input", 422, "A value will never be accepted.", "Correct the field in `field` or `errors`."),
    ProblemCode(
        "quota_refused",
        422,
        "The quota would break its tree: mins, resources, parent or ancestors do not fit.",
        "`detail` has the rule and its numbers; `field` what to change.",
    ),
    ProblemCode("predictor_unknown", 422, "No model has the policy's name.", "GET /v1/predictors describes all."),
    ProblemCode(
        "predictor_settings",
        422,
        "The model does not allow a setting's name or value.",
        "GET /v1/predictors/{name} describes what is allowed.",
    ),
    ProblemCode("unstorable", 422, "The database cannot store a value.", "Correct the value in `detail`."),
    ProblemCode("pod_ambiguous", 422, "Several pods have this name.", "Add `node` or `namespace`, or use the uid."),
    ProblemCode(
        "invalid_time",
        422,
        "A time parameter is not a time, or a span ends before it begins.",
        "Send RFC 3339 (2026-01-05T10:32:00Z), or a time ago: 90s, 5m, 2h, 1d.",
    ),
    ProblemCode("internal", 500, "A defect of Slackwater.", "See the server's log; please report it."),
    ProblemCode(
        "misconfigured",
        500,
        "The server's machine or settings forbid it.",
        "An operator must change what `detail` names.",
    ),
    ProblemCode(
        "predictor_unusable",
        500,
        "The prediction service cannot load an installed model.",
        "Repair its installation, or choose another model.",
    ),
    ProblemCode(
        "deschedule_plugin_unusable",
        500,
        "A plugin of descheduling that a distribution installs cannot be used.",
        "Mend or uninstall the one in `detail`.",
    ),
    ProblemCode(
        "predictor_twice",
        500,
        "Two distributions provide a model of this name.",
        "Uninstall one in `detail`.",
    ),
    ProblemCode(
        "unavailable",
        503,
        "A dependency (PostgreSQL, NATS) does not answer.",
        "Retry after `Retry-After`; /readyz?verbose names it.",
    ),
    ProblemCode(
        "too_many_streams",
        503,
        "All streams of this console are in use.",
        "Close one, ask another replica, or raise SLACKWATER_CONSOLE_STREAMS.",
    ),
)

PROBLEMS: Mapping[str, ProblemCode] = {each.code: each for each in _CODES}


def type_of(code: str) -> str:
    """Returns the `type` of a problem document: a page of this server."""
    return f"/v1/problems/{code}" if code in PROBLEMS else "about:blank"


def reference_page() -> str:
    """Returns the text of docs/reference/problems.md."""
    lines = [
        "# Problems",
        "",
        "Generated by contracts/generate.py from slackwater.runtime.problem_codes.",
        "",
        "Error answers of the API are problem documents (RFC 9457, `application/problem+json`), here by HTTP status.",
        "`code` is stable; `detail` is for people and names field, value and what is allowed; `field` or `errors` name",
        "the parameter. `type` is a page of the server that also says what to do: `GET /v1/problems/{code}`.",
    ]
    for status in dict.fromkeys(each.status for each in _CODES):
        lines += ["", f"## {status}", ""]
        meanings: dict[str, list[str]] = {}
        for problem in _CODES:
            if problem.status == status:
                meanings.setdefault(_of_any_kind(problem), []).append(problem.code)
        lines += [f"- `{'`, `'.join(codes)}`: {meaning}" for meaning, codes in meanings.items()]
    return "\n".join([*lines, ""])


def _of_any_kind(problem: ProblemCode) -> str:
    """The meaning of a problem, the same for every kind of resource."""
    kind = next((kind.name for kind in KINDS if problem.code.startswith(f"{kind.noun}_")), None)
    return problem.meaning if kind is None else problem.meaning.replace(kind, "KIND", 1)
