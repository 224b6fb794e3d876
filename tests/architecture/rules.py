"""The rules of the house, each a function from one source to the ways in which it breaks the rule."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePath, PurePosixPath

from sources import Source, within

from slackwater.runtime.service_list import service_list

SERVICES = frozenset(service_list().packages)
"""Every package below services/slackwater; a test compares this with the tree."""

REACHES: Mapping[str, Collection[str]] = {
    "backtest": {  # a tool beside the services: judges the models of one, draws with the vocabulary of another
        "slackwater.prediction.adapters.predictors.registry",
    },
    "cli": {  # the composition root, and the reader of what a stopped instance left
        "slackwater.agent.adapters.journal_file",
        "slackwater.agent.adapters.linux.cpu_placement",  # doctor: why pods get no CPUs here
        "slackwater.agent.adapters.linux.hierarchy",
        "slackwater.agent.adapters.linux.machine",
        "slackwater.agent.metrics",  # for the reference page
        "slackwater.agent.adapters.placement_files",  # `get topology`: no list of the API has it
        "slackwater.agent.command",
        "slackwater.agent.domain.admission",
        "slackwater.agent.leftovers",  # `up --demo` ends what a killed run has left, before any agent runs
        "slackwater.agent.edge.late_bus",  # a bus that is not there: what the API description is made with
        "slackwater.backtest.adapters.predictors",  # to list them
        "slackwater.backtest.edge",
        "slackwater.backtest.service",
        "slackwater.console.adapters.postgres",
        "slackwater.console.edge.stream",
        "slackwater.console.service",
        "slackwater.demo.director",
        "slackwater.kubernetes.adapters.http_api_server",  # uninstall needs a cluster and nothing else
        "slackwater.kubernetes.usecases.uninstall",
        "slackwater.simulation.adapters.document_files",  # what a file holds says what is simulated
        "slackwater.simulation.adapters.trace_scenes",  # the words of its options
        "slackwater.simulation.domain.guarded_run",
        "slackwater.simulation.edge",
        "slackwater.simulation.service",
        "slackwater.simulation.settings",
        "slackwater.simulation.usecases.assess",  # the type of the answer
    },
    "simulation": {  # a tool beside the services, like the backtest: decides with the functions that decide offers
        "slackwater.backtest.adapters.predictors",  # models by name and settings
        "slackwater.backtest.domain.measures",  # judged as the backtest judges them
        "slackwater.backtest.domain.oracle",
        "slackwater.colocation.usecases.colocation_strategy",  # documents, as they are applied
        "slackwater.colocation.usecases.strategy_set",
        "slackwater.ensurance.settings",  # the policy that it begins with
    },
    "demo": {
        "slackwater.agent.adapters.linux.hierarchy",  # a witness of its own of what the kernel holds
        "slackwater.agent.adapters.linux.processes",  # of those cgroups: members, and their end
        "slackwater.agent.adapters.linux.registry",  # which pods they are
        "slackwater.agent.adapters.simulated_load",  # when the demand of its machines rises
    },
}
"""Permitted references into another service, by exact module: imports, and strings that name a module."""

STARTS = frozenset({("cli", "slackwater.agent"), ("demo", "slackwater.cli")})
"""Services that start another service as a process (`python -m`), without an import."""

_NAMED_MODULE = re.compile(r"(slackwater(?:\.[a-z_]+)+)(?::\w+)?")


def services_apart(source: Source) -> Iterator[str]:
    """A service imports no other service, except as REACHES says."""
    if source.root != "services":
        return
    for target in foreign(source):
        allowed = REACHES.get(source.part, ())
        if (source.part, target) not in STARTS and not any(within(target, module) for module in allowed):
            yield f"{source.path}: service {source.part} reaches into {target}"


def foreign(source: Source) -> Iterator[str]:
    """What a source of one service names in another one."""
    named = (match[1] for text in source.strings if (match := _NAMED_MODULE.fullmatch(text)))
    for target in (*source.imports, *named):
        parts = target.split(".")
        if parts[0] == "slackwater" and len(parts) > 1 and parts[1] in SERVICES - {source.part}:
            yield target


DECLARED_KINDS = PurePath("libs/slackwater/resources/kinds")


def libraries_below(source: Source) -> Iterator[str]:
    """A library imports no service. Declarations of resource kinds name models and hooks, which a service loads."""
    if source.root == "libs":
        declares = source.path.parent == DECLARED_KINDS
        for target in foreign(source):
            if not declares or within(target, "slackwater.cli"):
                yield f"{source.path}: library {source.part} imports {target}"


def product_without_tests(source: Source) -> Iterator[str]:
    """Doubles and scenes stay outside the wheel: no service and no library imports them."""
    if source.root in {"services", "libs"}:
        yield from (f"{source.path}: imports {target}" for target in source.imports if within(target, "tests"))


PURE_LIBRARIES = frozenset(
    {"charts", "descheduling", "fairshare", "kernels", "koordinator", "offers", "peaks", "podmigration"}
    | {"reservations"}
)
"""Libraries made of a service's domain: held to the same rule. `waterline` reads documents with pydantic."""
PURE_PACKAGES = (
    *("slackwater.charts", "slackwater.decisions", "slackwater.model", "slackwater.offers", "slackwater.peaks"),
    "slackwater.kernels",
    *("slackwater.fairshare", "slackwater.podmigration", "slackwater.traces", "slackwater.waterline", "numpy"),
    *("slackwater.resources.metadata", "slackwater.resources.names", "slackwater.resources.selectors"),
    "slackwater.resources.cel",
    *("slackwater.apiserver.resource_names", "slackwater.apiserver.records"),
    "slackwater.apiserver.cluster_events",
    *("slackwater.apiserver.node_pods", "slackwater.apiserver.workloads"),
    "slackwater.descheduling",
    "slackwater.reservations",
    "slackwater.cluster.view",  # a snapshot; what folds it reads events
)
IMPURE_STANDARD = frozenset(
    {
        *("asyncio", "concurrent", "logging", "multiprocessing", "os", "pathlib", "random", "secrets", "select"),
        *("shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib"),
        *("uuid", "http", "sys", "importlib"),
    }
)
"""Of the standard library: what reads a clock, a socket, a file, the process or chance. uuid5 is pure, but unneeded."""
_CLOCK_CALLS = frozenset({"now", "utcnow", "today", "localtime", "monotonic", "perf_counter", "uuid4", "uuid1"})
_IMPURE_OWN = ("slackwater.model.identifiers.new_id", "slackwater.model.time.SystemClock", "slackwater.traces.readers")
_IMPURE_BUILTINS = frozenset({"open", "print", "input", "exec", "eval", "__import__"})


def domain_pure(source: Source) -> Iterator[str]:
    """A domain is a function of what it is handed: model, waterline, decisions, NumPy, and a pure standard library."""
    pure_library = source.root == "libs" and source.part in PURE_LIBRARIES
    if not pure_library and not (source.root == "services" and source.room == "domain"):
        return
    own = f"slackwater.{source.part}" if pure_library else f"slackwater.{source.part}.domain"
    for target in source.imports:
        top = target.split(".")[0]
        standard = top in sys.stdlib_module_names and top not in IMPURE_STANDARD
        ours = within(target, own) or any(within(target, package) for package in PURE_PACKAGES)
        reads_documents = pure_library and source.path.name == "documents.py" and top == "pydantic"
        if not (standard or ours or reads_documents) or any(
            within(target, one) for one in (*_IMPURE_OWN, "numpy.random")
        ):
            yield f"{source.path}: domain imports {target}"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and (called := _impure_call(node.func)):
            yield f"{source.path}:{node.lineno}: domain calls {called}"


def _impure_call(function: ast.expr) -> str | None:
    if isinstance(function, ast.Name) and function.id in _IMPURE_BUILTINS | _CLOCK_CALLS:
        return function.id
    if not isinstance(function, ast.Attribute):
        return None
    text = ast.unparse(function)
    if function.attr in _CLOCK_CALLS or re.match(r"(np|numpy)\.random\b", text) or text == "time.time":
        return text
    return None


USECASE_FOREIGN = (
    "alembic",
    "anyio",
    "asyncpg",
    "fastapi",
    "grpc",
    "httpx2",
    "nats",
    "sqlalchemy",
    "starlette",
    "uvicorn",
)


def usecases_without_io(source: Source) -> Iterator[str]:
    """Use cases reach the world through their ports only."""
    if source.root == "services" and source.room == "usecases":
        for target in source.imports:
            if target.split(".")[0] in USECASE_FOREIGN or within(target, f"slackwater.{source.part}.adapters"):
                yield f"{source.path}: use case imports {target}"


NATS_IMPORTERS = frozenset({"bus"})
SQL_IMPORTERS = frozenset({"store"})
SQL = frozenset({"alembic", "asyncpg", "sqlalchemy"})


def servers_behind_ports(source: Source) -> Iterator[str]:
    """Only the bus speaks NATS; only the store, adapters and migrations speak SQL."""
    if source.root not in {"services", "libs"}:
        return
    for target in source.imports:
        top = target.split(".")[0]
        if top == "nats" and not (source.root == "libs" and source.part in NATS_IMPORTERS):
            yield f"{source.path}: imports {target}, which only bus may"
        if top in SQL and not (
            (source.root == "libs" and source.part in SQL_IMPORTERS)
            or (source.root == "services" and source.room in {"adapters", "migrations"})
        ):
            yield f"{source.path}: imports {target}, which only store, adapters and migrations may"


YAML_READERS = frozenset(
    {"libs/slackwater/runtime/yaml_files.py", "libs/slackwater/runtime/service_list.py"}
    | {"libs/slackwater/bus/admin/streams.py"}
)
"""The one reader of YAML that users give, and those of the contracts that travel with the code."""
_YAML_READ = re.compile(r"yaml\.(\w+_)?(load|compose|parse)(_all)?")


def bounded_yaml(source: Source) -> Iterator[str]:
    """YAML that users give is read within limits (slackwater.runtime.yaml_files)."""
    if source.root not in {"services", "libs"} or str(source.path) in YAML_READERS:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _YAML_READ.fullmatch(ast.unparse(node.func)):
            yield f"{source.path}:{node.lineno}: {ast.unparse(node.func)}, which only yaml_files may"


JSON_READERS: Mapping[str, Collection[str]] = {
    "the one reader of what others have written": ("libs/slackwater/model/json_text.py",),
    "read within a budget": (
        "libs/slackwater/events/codec/packed.py",
        "libs/slackwater/runtime/strict_json.py",
        "services/slackwater/console/usecases/dead_letters.py",
    ),
    "answers of the own broker": ("libs/slackwater/bus/",),
    "answers of a Slackwater server": ("libs/slackwater/client/",),
    "what this program has written": (
        "libs/slackwater/resources/reference.py",
        "libs/slackwater/runtime/embedded_nats.py",
        "libs/slackwater/runtime/state.py",
        "services/slackwater/demo/",
        "services/slackwater/prediction/domain/snapshot.py",
    ),
}
"""Files and folders that may call `json.loads`, by reason."""
_JSON_READERS = tuple(prefix for prefixes in JSON_READERS.values() for prefix in prefixes)


def bounded_json(source: Source) -> Iterator[str]:
    """JSON that others give is read by slackwater.model.json_text: nested deeply it raises what readers expect."""
    if source.root not in {"services", "libs"} or str(source.path).startswith(_JSON_READERS):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"json.loads", "json.load"}:
            yield f"{source.path}:{node.lineno}: {ast.unparse(node.func)}; parse_json_text"


ROOMS = frozenset(
    {"__init__", "domain", "usecases", "ports", "adapters", "edge", "metrics", "settings", "service", "migrations"}
)
MORE_ROOMS: Mapping[str, Collection[str]] = {
    "agent": {
        "__main__",
        "command",
        "launch",
        "process",
        "fleet",
        "node_agent",
        "leftovers",
    },  # also a small program of its own
    "console": {"static"},
}
WITHOUT_ROOMS = frozenset({"cli", "demo"})
"""A table of verbs, and a program that watches: nothing is decided there."""
WITHOUT_BUS = frozenset({"backtest", "simulation"})
"""Have the rooms, but read files only: there is nothing to declare."""


def known_rooms(source: Source) -> Iterator[str]:
    """A service has the rooms that every service has."""
    allowed = ROOMS | set(MORE_ROOMS.get(source.part, ()))
    if source.root == "services" and source.part not in WITHOUT_ROOMS and source.room not in allowed:
        yield f"{source.path}: {source.room!r} is no room of a service"


_DECLARATIONS = ("CONSUMES", "PUBLISHES", "OWNS")


def front_door(source: Source) -> Iterator[str]:
    """A service's `__init__.py` says what it decides, and CONSUMES / PUBLISHES / OWNS as plain tuples; no code."""
    if not (source.root == "services" and source.path.name == "__init__.py" and len(source.path.parts) == 4):
        return
    if ast.get_docstring(source.tree) is None:
        yield f"{source.path}: no docstring"
    declared = []
    for node in source.tree.body[1:]:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id in _DECLARATIONS and _tuple_of_strings(node):
            declared.append(target.id)
        else:
            yield f"{source.path}:{node.lineno}: code in the front door"
    if source.part not in WITHOUT_ROOMS | WITHOUT_BUS and sorted(declared) != sorted(_DECLARATIONS):
        yield f"{source.path}: declares {declared}, wants each of {_DECLARATIONS} once"


def _tuple_of_strings(node: ast.stmt) -> bool:
    try:
        value = ast.literal_eval(getattr(node, "value", None))  # type: ignore[arg-type] # None is refused below
    except (TypeError, ValueError):
        return False
    return isinstance(value, tuple) and all(isinstance(one, str) for one in value)


def named_by_meaning(source: Source) -> Iterator[str]:
    """No drawer for odds and ends."""
    if odd := {"util", "utils", "helper", "helpers", "common", "misc"} & set(source.path.with_suffix("").parts):
        yield f"{source.path}: {', '.join(odd)} says nothing about what is inside"


FILE_LINES, FUNCTION_LINES = 450, 70
GENERATED = frozenset({PurePosixPath("libs/slackwater/client/generated"), PurePosixPath("libs/slackwater/v1")})


def within_caps(source: Source) -> Iterator[str]:
    """Hard caps; what is worth noticing lies lower (`long_ones`). Generated modules have none."""
    if GENERATED.intersection(source.path.parents):
        return
    for what, lines in long_ones(source, FILE_LINES, FUNCTION_LINES):
        yield f"{what}: {lines} lines"


def long_ones(source: Source, file_lines: int, function_lines: int) -> Iterator[tuple[str, int]]:
    """Files and functions above the given lengths, with their lengths."""
    if (length := len(source.text.splitlines())) > file_lines:
        yield str(source.path), length
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > function_lines:
                yield f"{source.path}:{node.lineno} {node.name}", length


RULES = (
    *(services_apart, libraries_below, product_without_tests, domain_pure, usecases_without_io, servers_behind_ports),
    *(known_rooms, front_door, named_by_meaning, within_caps, bounded_yaml, bounded_json),
)
