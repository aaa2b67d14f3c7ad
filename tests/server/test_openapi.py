"""The OpenAPI document says what the API does."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
from starlette.routing import Route

from agentkit_py.server.api import openapi_document
from agentkit_py.server.app import ENDPOINTS
from agentkit_py.testing import tool_call
from tests.server.test_streams import price
from tests.server.world import app_of, client_of, message, support, wait_until_idle


def schema_of(method: str, path: str, status: int) -> dict[str, Any]:
    """The schema of an answer, with everything that it refers to."""
    found = openapi_document(ENDPOINTS)
    content = found["paths"][path][method.lower()]["responses"][str(status)]["content"]
    return {**content["application/json"]["schema"], "components": found["components"]}


def test_every_endpoint_is_described() -> None:
    """The document describes no other paths."""
    found = {
        (path, method.upper())
        for path, item in openapi_document(ENDPOINTS)["paths"].items()
        for method in item
    }
    routes = [r for r in app_of(support()).routes if isinstance(r, Route)]
    served = {
        (route.path, method) for route in routes for method in (route.methods or set()) - {"HEAD"}
    }
    assert found == served - {("/openapi.json", "GET")}


def test_every_reference_has_a_schema() -> None:
    """No schema is missing, and every one is a schema."""
    found = openapi_document(ENDPOINTS)
    names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(found)))
    assert names <= set(found["components"]["schemas"])
    for schema in found["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_the_document_is_served_to_everybody() -> None:
    """It holds nothing of anybody."""
    async with client_of(app_of(support()), user=None) as client:
        answer = await client.get("/openapi.json")
    assert answer.json() == openapi_document(ENDPOINTS)


async def test_responses_match_the_document() -> None:
    """Good ones and bad ones."""
    app = app_of(support(tool_call("price", {"hat": "b"}), "It costs 30.", tools=(price,)))
    steps: list[tuple[str, str, str, Any]] = [
        ("POST", "/api/chat", "/api/chat", message("Hi", "t1")),
        ("GET", "/api/agents", "/api/agents", None),
        ("POST", "/api/threads", "/api/threads", {"title": "x"}),
        ("GET", "/api/threads", "/api/threads?limit=1", None),
        ("GET", "/api/threads/{threadId}", "/api/threads/t1", None),
        ("GET", "/api/threads/{threadId}", "/api/threads/none", None),
        ("POST", "/api/chat/cancel", "/api/chat/cancel", {"threadId": "t1"}),
        ("POST", "/api/chat/cancel", "/api/chat/cancel", {}),
        ("POST", "/api/realtime/token", "/api/realtime/token", {}),
        (
            "POST",
            "/api/approve-tool",
            "/api/approve-tool",
            {"toolCallId": "x", "threadId": "t1", "action": "deny"},
        ),
        ("DELETE", "/api/threads/{threadId}", "/api/threads/t1", None),
    ]
    statuses: list[int] = []
    async with client_of(app) as client:
        for method, path, url, body in steps:
            answer = await client.request(method, url, json=body)
            await wait_until_idle(app)
            statuses.append(answer.status_code)
            jsonschema.validate(answer.json(), schema_of(method, path, answer.status_code))
    assert statuses == [200, 200, 200, 200, 200, 404, 200, 400, 200, 404, 200]


def test_each_name_in_a_path_is_a_parameter_and_is_in_no_body() -> None:
    """Generators of clients refuse the document otherwise."""
    document = openapi_document(ENDPOINTS)
    for path, methods in document["paths"].items():
        for method, facts in methods.items():
            found = [one for one in facts.get("parameters", ()) if one["in"] == "path"]
            assert [one["name"] for one in found] == re.findall(r"{(\w+)}", path), (method, path)
            assert all(one["required"] and one["description"] for one in found)
            body = facts.get("requestBody", {}).get("content", {}).get("application/json", {})
            name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
            fields = document["components"]["schemas"].get(name, {}).get("properties", {})
            assert not fields.keys() & {one["name"] for one in found}
