"""Rules on names and texts, as functions from the sources to what breaks the rule (style.md)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from sources import Source, sources

REFUSED_VERBS = frozenset(
    {
        *("tell", "tells", "told", "say", "says", "said", "hear", "hears", "heard", "look", "looks", "looked"),
        *("take", "give", "know", "forget", "forgets"),
    }
)
"""Use publish, record, notify, subscribe, check, acquire, release, apply, discard …"""
GERUND = re.compile(r"[a-z]+ing")
RETIRED_MODULES = frozenset(
    {
        *("alone", "bell", "book", "breathing", "closing", "crowd", "desk", "express", "given", "handover", "heads"),
        *("heard", "hearing", "holes", "jumping", "learn", "letters", "looking", "marking", "owning", "pace", "placed"),
        *("quick", "raising", "reading", "recalling", "refusals", "rounds", "shared", "soundness", "standing_on"),
        *("steady", "steadying", "stepping", "stopped", "strangers", "telling", "tether", "tunnel", "turns", "unasked"),
        *("untouchable", "wanted", "words", "working"),
    }
)
"""Module names of private language, replaced by terms of the field."""
GLOSSARY: Mapping[str, str] = {
    "stranger": "external",
    "onlooker": "reader",
    "ear": "subscription",
    "desk": "admin",
    "crowd": "table",
    "acquaintance": "warmup",
    "wish": "desired state, override",
    "untouchable": "protected",
}
"""Parts of class names that are no terms of the field, and the term."""
NOUNS_IN_ING = frozenset(
    {
        *(
            "binding",
            "descheduling",
            "formatting",
            "grouping",
            "interning",
            "ordering",
            "ring",
            "scheduling",
            "setting",
            "string",
        ),
        *("tracing", "windowing"),
    }
)
"""Terms of the field that are nouns."""
REFUSED_WORDS = re.compile(r"\b(?:who|whoever|nobody|somebody|everybody|anybody|anyone|his|he)\b", re.IGNORECASE)
"""Words for people. Processes, pods, nodes and readers of a stream are `it`."""
ACCOUNT = "`nobody`"
"""An account of Linux."""
PLUGIN_METHODS = frozenset({"forget"})
"""Part of `slackwater.peaks.port.KeptModel`, which models of other distributions implement."""
EXAMPLES = frozenset({"architecture.names", "architecture.test_names"})
"""The list of refused words itself, and its tests."""


def checked() -> list[Source]:
    """Services and libraries; stubs of gRPC and the operations of the client are generated."""
    return [s for s in sources("services", "libs") if s.part != "v1" and "generated" not in s.path.parts]


def read_by_developers() -> list[Source]:
    """Tests and tools, whose texts and test names follow the style guide too."""
    return [source for source in sources("contracts", "deploy", "tests", "tools") if source.module not in EXAMPLES]


def functions_with_refused_verbs(tree: Iterable[Source]) -> set[str]:
    """Functions and methods, private ones too, whose first word is none of the field's. Functions inside functions are
    locals."""
    found = set[str]()
    for source in tree:
        owners = [source.tree, *(node for node in source.tree.body if isinstance(node, ast.ClassDef))]
        for node in (part for owner in owners for part in owner.body):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            of_plugins = source.part == "peaks" and node.name in PLUGIN_METHODS
            if node.name.lstrip("_").split("_")[0] in REFUSED_VERBS and not of_plugins:
                found.add(f"{source.module}:{node.name}")
    return found


def modules_named_after_moods(tree: Iterable[Source]) -> set[str]:
    """Bare gerunds, and names that were retired: a module is a noun."""
    return {
        source.module
        for source in tree
        for name in [source.module.rpartition(".")[2]]
        if name in RETIRED_MODULES or (GERUND.fullmatch(name) and name not in NOUNS_IN_ING)
    }


def classes_named_twice(tree: Iterable[Source]) -> set[str]:
    """The same public class name in two modules that means two things. Migrations stand alone."""
    found: dict[str, set[str]] = defaultdict(set)
    for source in tree:
        if source.room == "migrations":
            continue
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(source.module)
    return {f"{name}: {', '.join(sorted(modules))}" for name, modules in found.items() if len(modules) > 1}


def classes_outside_the_glossary(tree: Iterable[Source]) -> set[str]:
    """Public classes with a word in their name that the glossary replaces."""
    return {
        f"{source.module}:{node.name}"
        for source in tree
        for node in source.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        if {word.lower() for word in re.findall(r"[A-Z][a-z]*", node.name)} & GLOSSARY.keys()
    }


def texts_with_refused_words(tree: Iterable[Source]) -> set[str]:
    """Docstrings, messages and comments with a word for a person. A string of one word is a value, not a text."""
    return {
        f"{source.module}: {word.group().lower()}: {' '.join(text.split())[:60]}"
        for source in tree
        for text in (*(text for text in source.strings if " " in text), *_comments(source))
        for word in REFUSED_WORDS.finditer(text.replace(ACCOUNT, ""))
    }


def refused_words_in_test_names(tree: Iterable[Source]) -> set[str]:
    """Test functions with a word for a person in their name."""
    return {
        f"{source.module}:{node.name}"
        for source in tree
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        if REFUSED_WORDS.search(node.name.replace("_", " "))
    }


def _comments(source: Source) -> Iterator[str]:
    if "#" in source.text:
        tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
        yield from (token.string for token in tokens if token.type == tokenize.COMMENT)


RULES = (
    functions_with_refused_verbs,
    modules_named_after_moods,
    classes_named_twice,
    classes_outside_the_glossary,
    texts_with_refused_words,
)
