"""Dry runs of quotas, their claims and their sums, as `apply`, `claim` and `why` print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from slackwater.cli.output import UNKNOWN, Item, TableColumn, clock_time, table
from slackwater.fairshare.documents import MOST_BYTES, MOST_CORES
from slackwater.fairshare.tree import amount_text, is_cpu
from slackwater.resources.kinds.elastic_quota import UNLIMITED

SHOWN_RECLAIMS = 10


def tried_lines(runtimes: Item) -> Iterator[str]:
    """The quotas whose runtime would change, and what they would owe."""
    if not runtimes["quotas"]:
        yield "no runtime would change, with what is requested now"
        return
    columns = (
        TableColumn("QUOTA", lambda item: str(item["quota"])),
        TableColumn("RESOURCE", lambda item: str(item["resource"])),
        TableColumn("BEFORE", lambda item: shown_amount(item["resource"], item["before"]), right=True),
        TableColumn("AFTER", lambda item: shown_amount(item["resource"], item["after"]), right=True),
        TableColumn("USED", lambda item: shown_amount(item["resource"], item["used"]), right=True),
        TableColumn("OWED", lambda item: shown_amount(item["resource"], item["owed"]), right=True),
    )
    yield from table(runtimes["quotas"], columns, wide=False, headers=True)


def shown_amount(resource: str, amount: int | None) -> str:
    """An amount of the ledger; one that no pool has is no limit."""
    if amount is None:
        return UNKNOWN
    if amount >= (MOST_CORES * 1000 if is_cpu(resource) else MOST_BYTES):
        return UNLIMITED
    return amount_text(resource, amount)


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Amounts of the ledger, by resource."""
    return ", ".join(f"{resource} {shown_amount(resource, amount)}" for resource, amount in amounts.items()) or UNKNOWN


def claim_table(claims: Sequence[Item], *, wide: bool) -> list[str]:
    """The claims of a quota: those that hold, then the queue."""
    if not claims:
        return ["no claims"]
    columns = (
        TableColumn("CLAIM", lambda item: str(item["id"])),
        TableColumn("STATE", lambda item: str(item["state"])),
        TableColumn("PLACE", lambda item: UNKNOWN if item["position"] is None else str(item["position"]), right=True),
        TableColumn("REQUEST", lambda item: amounts_text(item["request"])),
        TableColumn("PRIORITY", lambda item: str(item["priority"]), right=True),
        TableColumn("RUNS", run_text),
        TableColumn("WORKLOAD", lambda item: item["workload"] or UNKNOWN, wide=True),
        TableColumn("WHY", lambda item: item["message"] or UNKNOWN),
    )
    return list(table(claims, columns, wide=wide, headers=True))


def run_text(claim: Item) -> str:
    """What agents report of a claim: how many pods, or what differs."""
    run = claim["run"]
    if run is None:
        return UNKNOWN
    return str(run["pods"]) if run["finding"] is None else str(run["finding"]).replace("_", " ")


def claim_line(claim: Item) -> str:
    """A claim in one line."""
    head = f"claim {claim['id']} of {claim['quota']}: {claim['state']}"
    if claim["position"] is not None:
        head += f", {claim['position']} of {claim['queue_length']} in the queue"
    order = claim["reclaim"]
    if order is not None:
        head += f", has to end by {clock_time(order['deadline'])} for {reclaimer(order)}"
    elif claim["message"]:
        head += f"; {claim['message']}"
    estimate = claim["estimate"]
    return head if estimate is None else f"{head}; {estimate_text(estimate)}"


def reclaimer(order: Item) -> str:
    """What a claim has to end for."""
    return f"claim {order['for_claim']} of {order['for_quota']}" if order["for_claim"] else "the pool, which shrank"


def estimate_text(estimate: Item) -> str:
    """When a claim may start, and how right such estimates were."""
    if estimate["p50_seconds"] is None:
        return "no estimate: the quota's past does not reach so far"
    text = f"starts in about {estimate['p50_seconds']:.0f} s"
    if estimate["p90_seconds"] is not None:
        text += f", 9 of 10 within {estimate['p90_seconds']:.0f} s"
    if estimate["outcomes"] and estimate["hit_rate_p90"] is not None:
        text += f" (so far right for {estimate['hit_rate_p90']:.0%} of {estimate['outcomes']})"
    return text


def why_lines(answer: Item) -> Iterator[str]:
    """The sum behind the runtime of a quota, resource by resource."""
    since = answer["since"]
    then = f", as it was from {clock_time(since)} on" if since else ""
    yield f"quota {answer['quota']} below {answer['parent']}, tree {answer['tree']}{then}"
    if not answer["dimensions"]:
        yield "nothing is declared or requested"
    for each in answer["dimensions"]:
        name = each["resource"]

        def text(amount: int, resource: str = name) -> str:
            return shown_amount(resource, amount)

        yield ""
        yield f"{name}: runtime {text(each['runtime'])} of {text(each['total'])} that {answer['parent']} has"
        scaled = "" if each["scaled_min"] == each["min"] else f", scaled down from {text(each['min'])}"
        rows: list[tuple[str, int, str]] = [
            ("first", each["first"], f"requests {text(each['request'])}, min {text(each['scaled_min'])}{scaled}")
        ]
        if each["guaranteed"]:
            rows[0] = (*rows[0][:2], f"{rows[0][2]}, guaranteed {text(each['guaranteed'])}")
        for number, turn in enumerate(each["rounds"], 1):
            share = f"weight {text(each['weight'])} of {text(turn['weights'])} in a rest of {text(turn['pool'])}"
            back = f", {text(turn['returned'])} not needed" if turn["returned"] else ""
            rows.append((f"round {number}", turn["given"] - turn["returned"], f"{share}{back}"))
        rows.append(("runtime", each["runtime"], ""))
        widths = max(len(row[0]) for row in rows), max(len(text(row[1])) for row in rows)
        for title, amount, note in rows:
            yield f"  {title:<{widths[0]}}  {text(amount):>{widths[1]}}  {note}".rstrip()
        words = ("entitled", "used", "borrowed", "lent", "owed")
        yield "  " + ", ".join(f"{word} {text(each[word])}" for word in words)
        for title, key in (("lent by", "lenders"), ("borrowed by", "borrowers")):
            if each[key]:
                others = ", ".join(f"{quota} {text(amount)}" for quota, amount in sorted(each[key].items()))
                yield f"  {title} {others}"
    yield from _next_reclaims(answer["next_reclaims"])


def _next_reclaims(claims: Sequence[Item]) -> Iterator[str]:
    if claims:
        yield ""
        yield "reclaimed next, as far as a lender asks:"
    for claim in claims[:SHOWN_RECLAIMS]:
        workload = f" ({claim['workload']})" if claim["workload"] else ""
        yield f"  claim {claim['claim']} of {claim['quota']}{workload}, priority {claim['priority']}: " + amounts_text(
            claim["amounts"]
        )
    if len(claims) > SHOWN_RECLAIMS:
        yield f"  and {len(claims) - SHOWN_RECLAIMS} more: GET /v1/quotas/{{quota}}/reclaims"


def claim_why_lines(answer: Item) -> Iterator[str]:
    """The newest decision about a claim with its sum, then those before it."""
    record = answer["record"]
    yield f"claim {record['subject']}, {clock_time(record['decided_at'])}: {record['remaining_because']}"
    yield f"{record['reason']}, rule {record['rule']}, decision {record['id']}"
    rows = [(term["name"], term["value"], term["note"]) for term in record["terms"]]
    rows.append(("result", record["result"], record["unit"]))
    for name, value, note in rows:
        yield f"  {name:<16}{value:>20,}  {note}".replace(",", " ").rstrip()
    for each in record["inputs"]:
        yield f"  {each['name']}: {each['value']} ({each['source']})"
    for decision in answer["decisions"][1:]:
        yield f"{clock_time(decision['decided_at'])} {decision['reason']}"
