"""GET /docs: the API on one page, rendered from its OpenAPI document without scripts and without a network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from slackwater.runtime.routes import ROLE_FIELD

POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem}
code{font-family:ui-monospace,monospace;font-size:.92em}details{border-top:1px solid #8884;padding:.3rem 0}
summary{cursor:pointer;overflow-wrap:anywhere}summary b{display:inline-block;min-width:4.5rem}
table{border-collapse:collapse;margin:.4rem 0;width:100%}td,th{border-top:1px solid #8883;padding:.2rem .6rem .2rem 0;
text-align:left;vertical-align:top;overflow-wrap:anywhere}nav a{margin-right:1rem}p{margin:.4rem 0;max-width:60rem}
"""
Schema = Mapping[str, Any]


def api_page(document: Schema) -> str:
    """The page: every operation by tag, then every schema."""
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["process"])[0]
            by_tag.setdefault(tag, []).append(_operation(path, method, operation))
    links = " ".join(f'<a href="#tag-{escape(tag)}">{escape(tag)}</a>' for tag in by_tag)
    sections = "".join(
        f'<h2 id="tag-{escape(tag)}">{escape(tag)}</h2>{"".join(parts)}' for tag, parts in by_tag.items()
    )
    schemas = "".join(_schema(name, schema) for name, schema in sorted(document["components"]["schemas"].items()))
    title = f"{document['info']['title']} API {document['info']['version']}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
        f"<h1>{escape(title)}</h1><p>Each operation is a method of <code>slackwater.client.Client</code>, by its id. "
        'The same as JSON: <a href="/v1/openapi.json">/v1/openapi.json</a>. Errors: <a href="/v1/problems">'
        "/v1/problems</a>, each with a stable <code>code</code>.</p>"
        f'<nav>{links} <a href="#schemas">schemas</a></nav>{sections}<h2 id="schemas">Schemas</h2>{schemas}'
        "</body></html>\n"
    )


def _operation(path: str, method: str, operation: Schema) -> str:
    name = operation["operationId"]
    return (
        f'<details id="{escape(name)}"><summary><b>{method.upper()}</b> <code>{escape(path)}</code> '
        f"{escape(operation.get('summary', ''))}</summary>"
        f"<p><code>{escape(name)}</code>, role {escape(operation.get(ROLE_FIELD, ''))}</p>"
        f"{_text(operation.get('description', ''))}{_parameters(operation.get('parameters', ()))}"
        f"{''.join(_bodies(operation))}</details>"
    )


def _parameters(parameters: Sequence[Schema]) -> str:
    rows = [
        (
            f"<code>{escape(part['name'])}</code>",
            escape(part["in"]) + (", required" if part.get("required") else ""),
            _type(part["schema"]),
            escape(part.get("description", "")),
        )
        for part in parameters
    ]
    return _table(("parameter", "in", "type", ""), rows)


def _bodies(operation: Schema) -> Iterator[str]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield f"<p>Body: {_type(content['schema'])}</p>"
    for status, response in operation["responses"].items():
        for kind, content in response.get("content", {}).items():
            yield f"<p>{escape(status)} {escape(kind)}: {_type(content.get('schema', {}))}</p>"


def _schema(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (
            f"<code>{escape(field)}</code>" + (", required" if field in required else ""),
            _type(part),
            escape(part.get("description", "")),
        )
        for field, part in schema.get("properties", {}).items()
    ]
    shape = _table(("field", "type", ""), rows) if rows else f"<p>{_type(schema)}</p>"
    text = _text(schema.get("description", ""))
    return f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code></summary>{text}{shape}</details>'


def _type(schema: Schema) -> str:
    """A schema in one line, with links to those that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return escape(", ".join(map(str, schema["enum"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if isinstance(values := schema.get("additionalProperties"), Mapping):
        return f"object of {_type(values)}"
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    kind = schema.get("format") or schema.get("type") or schema.get("const") or "any"
    default = [f"default {schema['default']}"] if schema.get("default") not in (None, "") else []
    return escape(", ".join([str(kind), *limits, *default]))


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _text(text: str) -> str:
    paragraphs = (escape(" ".join(part.split())) for part in re.split(r"\n\s*\n", text) if part.strip())
    return "".join(f"<p>{part}</p>" for part in paragraphs)
