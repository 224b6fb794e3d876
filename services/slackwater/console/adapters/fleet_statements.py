"""The SQL of fleet-wide reads. It reads one narrow row per node, or stored levels; never reports."""

from __future__ import annotations

from sqlalchemy import text

NODE_AMOUNTS = ("requested", "usage", "system", "prod", "mid", "batch", "free")
"""Order of the pairs (CPU, memory) in `node.amounts`."""
LEVEL_AMOUNTS = ("capacity", "offered", *NODE_AMOUNTS, "borrowed")
"""Order of the pairs in `fleet_level.amounts`. Older levels lack the last pair."""

_FRESH = "(sampled_at > :fresh_after AND coalesce(liveness, 'fresh') = 'fresh')"

_MOST = 2**52
"""Exact in a float; the sum over all nodes still fits into 64 bits."""


def number_in(path: str, kind: str = "bigint") -> str:
    """SQL for a number within a document, clamped so that sums fit; NULL for any other value, so that an unreadable row
    does not fail the fleet's figures.
    """
    return (
        f"CASE WHEN jsonb_typeof({path}) = 'number'"
        f" THEN CAST(greatest(least(CAST({path} AS numeric), {_MOST}), -{_MOST}) AS {kind}) END"
    )


_PROD_PRESSURE = number_in("usage -> 'prod_pressure'", "float8")
_PRESSURE = f"coalesce({_PROD_PRESSURE}, 0)"
_THROTTLED = "coalesce(" + number_in("usage -> 'throttled_pods'") + ", 0)"
_PODS = number_in("usage -> 'pods'")
_ABOVE = f"({_FRESH} AND {_PRESSURE} > :waterline)"
_CAPACITY = number_in("facts -> 'capacity' -> '{0}'")
_OFFERED = number_in("offer -> 'batch' -> '{0}'")

_RESOURCES = ("cpu_milli", "memory_bytes")


def _used(name: str, place: int) -> str:
    """SQL for a node's usage of a resource (0 CPU, 1 memory)."""
    return f"amounts[{2 * NODE_AMOUNTS.index(name) + 1 + place}]"


def _borrowers(place: int) -> str:
    """SQL for the usage of batch and free, as slackwater.offers.lent_use."""
    return f"greatest(coalesce({_used('batch', place)} + {_used('free', place)}, 0), 0)"


def _borrowed(place: int) -> str:
    """SQL for the part of it that is within the node's offer."""
    return f"least({_borrowers(place)}, greatest(coalesce({_OFFERED.format(_RESOURCES[place])}, 0), 0))"


_CPU_BEYOND, _MEMORY_BEYOND = (f"{_borrowers(place)} - {_borrowed(place)}" for place in (0, 1))
NODES_BEYOND = text(
    f"""
    SELECT name FROM node WHERE {_FRESH} AND ({_CPU_BEYOND} > 0 OR {_MEMORY_BEYOND} > 0)
    ORDER BY {_CPU_BEYOND} DESC, {_MEMORY_BEYOND} DESC, name COLLATE "C" LIMIT :limit
    """  # noqa: S608 - made of constants of this module
)

_NODE_SUMS = ", ".join(f"coalesce(sum(amounts[{i}]), 0)" for i in range(1, 2 * len(NODE_AMOUNTS) + 1))
LEVEL = text(
    f"""
    SELECT count(*), (SELECT count(*) FROM node) - count(*),
        coalesce(sum({_CAPACITY.format("cpu_milli")}), 0), coalesce(sum({_CAPACITY.format("memory_bytes")}), 0),
        coalesce(sum({_OFFERED.format("cpu_milli")}), 0), coalesce(sum({_OFFERED.format("memory_bytes")}), 0),
        {_NODE_SUMS}, coalesce(sum({_borrowed(0)}), 0), coalesce(sum({_borrowed(1)}), 0)
    FROM node WHERE {_FRESH}
    """  # noqa: S608 - made of constants of this module
)

SAVE_LEVEL = text("""
    INSERT INTO fleet_level (at, nodes, silent, amounts) VALUES (:at, :nodes, :silent, :amounts)
    ON CONFLICT (at) DO NOTHING
""")


def _level(name: str, place: int) -> str:
    """SQL for an amount of a stored level."""
    return f"amounts[{2 * LEVEL_AMOUNTS.index(name) + 1 + place}]"


def _level_borrowed(place: int) -> str:
    """SQL for what was borrowed; of a level without it the most that the offers allow."""
    used = f"{_level('batch', place)} + {_level('free', place)}"
    return f"coalesce({_level('borrowed', place)}, least({used}, {_level('offered', place)}))"


def _level_beyond(place: int) -> str:
    used = f"{_level('batch', place)} + {_level('free', place)}"
    return f"greatest({used} - {_level_borrowed(place)}, 0)"


_LEVEL_MEANS = ", ".join(f"round(avg(amounts[{i}]))" for i in range(1, 2 * len(LEVEL_AMOUNTS) - 1))
LEVELS = text(
    f"""
    SELECT floor(extract(epoch FROM at) / :seconds) * :seconds AS bucket, round(avg(nodes)), round(avg(silent)),
        {_LEVEL_MEANS}, round(avg({_level_borrowed(0)})), round(avg({_level_borrowed(1)}))
    FROM fleet_level WHERE at BETWEEN :since AND :until GROUP BY bucket ORDER BY bucket
    """  # noqa: S608 - made of constants of this module
)

_GAINS = ", ".join(
    f"coalesce(sum({amount}), 0)"
    for place in (0, 1)
    for amount in (_level("offered", place), _level_borrowed(place), _level_beyond(place))
)
GAINED = text(
    f"SELECT count(*), {_GAINS} FROM fleet_level WHERE at >= :since AND at <= :until"  # noqa: S608 - constants
)
PRUNE_LEVELS = text("DELETE FROM fleet_level WHERE at < :before")

TOTALS = text(
    f"""
    SELECT count(*), count(*) FILTER (WHERE {_FRESH}), count(*) FILTER (WHERE liveness = 'lost'),
        count(*) FILTER (WHERE {_ABOVE}), count(*) FILTER (WHERE {_FRESH} AND {_THROTTLED} > 0),
        coalesce(sum({_THROTTLED}) FILTER (WHERE {_FRESH}), 0),
        coalesce(sum({_PODS}) FILTER (WHERE {_FRESH}), 0),
        max({_PROD_PRESSURE}) FILTER (WHERE {_FRESH})
    FROM node
    """  # noqa: S608 - made of constants of this module
)

_POOL = "coalesce(facts ->> 'pool', '')"
_KEPT_BACK = number_in("facts -> 'reserved' -> '{0}'")
_MID = number_in("offer -> 'mid' -> '{0}'")
_DEGRADED = "offer ->> 'degraded' IS NOT NULL"


def _pool_amounts(place: int, resource: str) -> tuple[str, ...]:
    """SQL for one node's amounts, in the order of PoolRow."""
    return (
        _CAPACITY.format(resource),
        _used("usage", place),
        f"greatest({_used('system', place)}, {_KEPT_BACK.format(resource)})",
        _used("prod", place),
        f"greatest({_used('prod', place)}, prod_peak[{place + 1}])",
        _MID.format(resource),
        _used("mid", place),
        _OFFERED.format(resource),
        _borrowed(place),
        f"{_borrowers(place)} - {_borrowed(place)}",
    )


_POOL_SUMS = ", ".join(
    f"coalesce(sum({amount}) FILTER (WHERE {_FRESH}), 0)"
    for pair in zip(*(_pool_amounts(place, resource) for place, resource in enumerate(_RESOURCES)), strict=True)
    for amount in pair
)
POOLS = text(
    f"""
    SELECT {_POOL} AS pool, count(*), count(*) FILTER (WHERE {_FRESH}), count(*) FILTER (WHERE {_ABOVE}),
        coalesce(sum({_THROTTLED}) FILTER (WHERE {_FRESH}), 0), count(*) FILTER (WHERE {_FRESH} AND {_DEGRADED}),
        {_POOL_SUMS}
    FROM node GROUP BY 1
    ORDER BY 4 DESC, count(*) - count(*) FILTER (WHERE {_FRESH}) DESC, 5 DESC, {_POOL} COLLATE "C"
    """  # noqa: S608 - made of constants of this module
)
_TO_LOWER = "coalesce({}, 0) + coalesce({}, 0) > {}"
_OVER = " OR ".join(_TO_LOWER.format(*(each.format(r) for each in (_OFFERED, _MID, _CAPACITY))) for r in _RESOURCES)
_OFFER_SUMS = ", ".join(
    f"coalesce(sum({each.format(r)}), 0)" for each in (_CAPACITY, _OFFERED, _MID) for r in _RESOURCES
)
SUMS_OF_POOL = text(
    f"""
    SELECT count(*), count(offer), count(*) FILTER (WHERE {_DEGRADED}), count(*) FILTER (WHERE {_OVER}), {_OFFER_SUMS}
    FROM node WHERE facts IS NOT NULL AND {_POOL} = :pool
    """  # noqa: S608 - made of constants of this module
)
OFFERS_OF_POOL = text(
    f"""
    SELECT CAST(offer AS text) FROM node
    WHERE offer IS NOT NULL AND facts IS NOT NULL AND {_POOL} = :pool
        AND name COLLATE "C" > CAST(:after AS text) COLLATE "C"
    ORDER BY name COLLATE "C" LIMIT :limit
    """  # noqa: S608 - made of constants of this module
)

_RANK = f"(CASE WHEN {_ABOVE} THEN 3 WHEN NOT coalesce({_FRESH}, false) THEN 2 WHEN {_THROTTLED} > 0 THEN 1 ELSE 0 END)"
_WANTED = f"""
    (CASE CAST(:show AS text) WHEN 'attention' THEN {_RANK} > 0 WHEN 'above' THEN {_RANK} = 3
        WHEN 'silent' THEN {_RANK} = 2 WHEN 'throttled' THEN {_FRESH} AND {_THROTTLED} > 0 ELSE true END)
    AND (CAST(:pool AS text) IS NULL OR {_POOL} = :pool)
    AND strpos(lower(name), lower(:text)) > 0
"""
NODE_COUNT = text(f"SELECT count(*) FROM node WHERE {_WANTED}")  # noqa: S608 - made of constants of this module
NODE_NAMES = text(
    f"""
    SELECT name FROM node WHERE {_WANTED}
    ORDER BY {_RANK} DESC, floor({_PRESSURE} * 20) DESC,
        name COLLATE "C" LIMIT :limit OFFSET :offset
    """  # noqa: S608 - made of constants of this module
)

THROTTLED_PODS = text(
    f"""
    SELECT CAST(pod AS text) FROM node, jsonb_array_elements(
        CASE WHEN reported_pods IS JSON ARRAY THEN CAST(reported_pods AS jsonb) ELSE CAST('[]' AS jsonb) END) AS pod
    WHERE {_FRESH} AND {_THROTTLED} > 0 AND pod @> CAST('{{"throttled": true}}' AS jsonb)
    ORDER BY {_PRESSURE} DESC, name COLLATE "C", pod ->> 'name' LIMIT :limit
    """  # noqa: S608 - made of constants of this module
)
