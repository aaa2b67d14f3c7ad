"""Grok's JSON Schemas, of tools and of answers: the rules that xAI documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rules import Problem, Request, fields_of, numbered, rules_of

_rule = rules_of("grok", "openai_responses")
_DOCS = "docs.x.ai/developers/model-capabilities/text/structured-outputs (November 2026)"
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions")
_INSIDE = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")


@_rule(f"{_DOCS}, rejected schemas; the words are ours")
def grok_schema(request: Request) -> Iterator[Problem]:
    """No empty `enum` or `anyOf`, boolean property, `minContains`, or list as `items`."""
    for where, root in _schemas(request):
        for at, schema in _parts(where, root):
            for words in _refused(schema):
                yield Problem(f"Invalid JSON schema at {at}: {words}", where)


@_rule(
    f"{_DOCS}, supported types: non-circular references only, in tools, too. That others are "
    "refused is inferred from github.com/get-bb/bb/issues/1612: Grok 4.6 does, 4.5 did not, seen "
    "through another host and for a tool; the words are ours",
    "inferred",
)
def grok_circle(request: Request) -> Iterator[Problem]:
    """No schema refers to itself, neither a tool's nor an answer's."""
    for where, root in _schemas(request):
        if any(_circles(root, schema, ()) for _, schema in _parts(where, root)):
            yield Problem(f"Invalid JSON schema at {where}: circular references", where)


def _schemas(request: Request) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schemas of a request to Grok in chat completions or Responses."""
    if request.provider == "grok":
        inner, answer = "function", ("response_format", "json_schema", "schema")
    elif request.host.endswith("x.ai"):
        inner, answer = None, ("text", "format", "schema")
    else:
        return
    for where, tool in numbered("tools", request.body.get("tools")):
        given = fields_of(tool) if inner is None else fields_of(fields_of(tool).get(inner))
        place = where if inner is None else f"{where}.{inner}"
        yield f"{place}.parameters", fields_of(given.get("parameters"))
    wanted: Any = request.body
    for name in answer:
        wanted = fields_of(wanted).get(name)
    yield ".".join(answer), fields_of(wanted)


def _parts(where: str, given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a schema and those inside it, with their places."""
    if not isinstance(given, dict):
        return
    schema = fields_of(given)
    yield where, schema
    for key in _BY_NAME:
        for name, inner in fields_of(schema.get(key)).items():
            yield from _parts(f"{where}.{key}.{name}", inner)
    for key in _INSIDE:
        yield from _parts(f"{where}.{key}", schema.get(key))
    for key in _LISTED:
        for at, inner in numbered(f"{where}.{key}", schema.get(key)):
            yield from _parts(at, inner)


def _refused(schema: dict[str, Any]) -> Iterator[str]:
    for key in ("enum", "anyOf"):
        if schema.get(key) == []:
            yield f"'{key}' must have at least one variant"
    for name, inner in fields_of(schema.get("properties")).items():
        if isinstance(inner, bool):
            yield f"the schema of property '{name}' must be an object"
    for key in ("minContains", "maxContains"):
        if key in schema:
            yield f"'{key}' is not supported"
    if isinstance(schema.get("items"), list):
        yield "'items' must be a schema; use 'prefixItems' for tuples"


def _circles(root: dict[str, Any], schema: dict[str, Any], inside: tuple[str, ...]) -> bool:
    """Return whether following the reference of a schema comes back to one that was followed."""
    ref = schema.get("$ref")
    if not isinstance(ref, str):
        return False
    if ref in inside:
        return True
    found: Any = root
    for name in ref.removeprefix("#").strip("/").split("/") if ref != "#" else ():
        found = fields_of(found).get(name)
    own = {key: value for key, value in fields_of(found).items() if key not in _BY_NAME[2:]}
    return any(_circles(root, one, (*inside, ref)) for _, one in _parts("", own))
