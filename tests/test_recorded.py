"""`scripts/recorded.py`, on cassettes of our own: what it finds wrong, and what it lets pass."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCRIPT = "scripts/recorded.py"
CHAT = "https://api.openai.com/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
CLAUDE = "https://api.anthropic.com/v1/messages"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent"
VERTEX = (
    "https://aiplatform.googleapis.com/v1beta1/projects/p/locations/l/publishers/google/models/"
    "gemini-2.5-flash:generateContent"
)
HI = {"role": "user", "content": "Hi"}


def exchange(url: str, request: Any, answer: Any, status: int = 200) -> dict[str, Any]:
    """An exchange as VCR records it."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return {
        "request": {"method": "POST", "uri": url, "headers": {}, "body": json.dumps(request)},
        "response": {"status": {"code": status}, "headers": {}, "body": {"string": text}},
    }


def said(text: str) -> dict[str, Any]:
    """A completion."""
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def run(folder: Path, root: Path, *interactions: dict[str, Any]) -> tuple[int, str]:
    """The script's exit status and output for one cassette; JSON is YAML, too."""
    (folder / "cassette.yaml").write_text(json.dumps({"interactions": interactions}))
    done = subprocess.run(
        [sys.executable, root / SCRIPT, folder, "--list"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def streamed(*chunks: Any) -> str:
    """Server-sent events."""
    lines = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in lines)


def chunk(text: str, reason: str | None = None) -> dict[str, Any]:
    """One piece of a streamed completion."""
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}


GOOD: list[dict[str, Any]] = [
    exchange(CHAT, {"model": "gpt-4.1", "messages": [HI]}, said("Hello.")),
    exchange(
        CHAT,
        {"model": "gpt-4.1", "messages": [HI], "stream": True},
        streamed(chunk("Hel"), chunk("lo.", "stop"), "[DONE]"),
    ),
    exchange(
        RESPONSES,
        {"model": "gpt-4.1", "input": "Hi"},
        {
            "status": "completed",
            "output": [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "status": "completed",
                    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
                }
            ],
        },
    ),
    exchange(
        CLAUDE,
        {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [HI]},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
    ),
    *(
        exchange(
            url,
            {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello."}]}}]},
        )
        for url in (GEMINI, VERTEX)
    ),
    exchange(
        CHAT,
        {"model": "gpt-4.1", "messages": [{"role": "root", "content": "Hi"}]},
        {"error": {"message": "Invalid value: 'root'."}},
        400,
    ),
    exchange(
        CHAT, {"model": "gpt-9", "messages": [HI]}, {"error": {"code": "model_not_found"}}, 400
    ),
    {"request_sample": {}, "response_sample": {}},
]


def test_recordings_that_are_kept_whole_pass(tmp_path: Path, root: Path) -> None:
    """A refusal for the form is refused, one for a missing model is not."""
    status, printed = run(tmp_path, root, *GOOD)
    assert status == 0, printed
    assert "refused by the provider: 1 (structural)" in printed
    assert "refused by the provider: 1 (no such model)" in printed
    last = next(line for line in printed.splitlines() if line.startswith("all"))
    assert last.split() == ["all", "8", "0", "0", "0", "0", "0", "0"]
    assert "streams held against the reference: 1" in printed


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "the stand-in refuses what was taken": (
        "accepted",
        exchange(CHAT, {"model": "gpt-4.1", "messages": [HI], "from_2027": 1}, said("Hello.")),
    ),
    "the stand-in takes what was refused": (
        "refused",
        exchange(CHAT, {"model": "gpt-4.1", "messages": [HI]}, {"error": {"message": "No."}}, 400),
    ),
    "a role that cannot be read": (
        "request",
        exchange(CHAT, {"model": "m", "messages": [{"role": "root", "content": "x"}]}, said("Hi")),
    ),
    "a reply that is not kept": (
        "reply",
        exchange(
            CHAT,
            {"model": "gpt-4.1", "messages": [HI]},
            {"choices": [{"message": {"role": "assistant", "content": "A", "refusal": "No."}}]},
        ),
    ),
}


def test_lost_or_wrongly_judged_messages_are_named(tmp_path: Path, root: Path) -> None:
    """Exit status 1, and a line each with check, format and cassette."""
    status, printed = run(tmp_path, root, *GOOD, *(wrong for _, wrong in BAD.values()))
    assert status == 1
    for number, (what, (check, _)) in enumerate(BAD.items(), start=len(GOOD)):
        assert f"{check}\tchat\tcassette.yaml#{number}" in printed, what


def test_a_folder_without_recordings_is_an_error(tmp_path: Path, root: Path) -> None:
    """Nothing was checked, which is no success."""
    status, printed = run(tmp_path, root)
    assert status == 1
    assert "no recorded exchange" in printed


REQUEST = json.dumps({"model": "gpt-4.1", "messages": [HI]})
ANSWER = json.dumps(said("Hello."))
HTTP = (
    f"POST {CHAT} HTTP/1.1\r\nHost: api.openai.com\r\n\r\n{REQUEST}",
    f"HTTP/2.0 200 OK\r\nContent-Type: application/json\r\n\r\n{ANSWER}",
)
CLAUDE_REQUEST = json.dumps({"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [HI]})
CLAUDE_ANSWER = json.dumps({"role": "assistant", "content": [{"type": "text", "text": "Hello."}]})
STREAM = streamed(chunk("Hello.", "stop"), "[DONE]")
DIALECTS: dict[str, Any] = {
    "ruby.yml": {
        "http_interactions": [
            {
                "request": {"method": "post", "uri": CHAT, "body": {"string": REQUEST}},
                "response": {"status": {"code": 200}, "body": {"string": ANSWER}},
            }
        ]
    },
    "r.yml": {
        "http_interactions": [
            {
                "request": {"method": "POST", "uri": CHAT, "body": {"string": REQUEST}},
                "response": {"status": 200, "body": {"string": ANSWER}},
            }
        ]
    },
    "go.yaml": {
        "version": 2,
        "interactions": [
            {
                "request": {"method": "POST", "url": CHAT, "body": REQUEST},
                "response": {"status": "200 OK", "code": 200, "body": ANSWER},
            }
        ],
    },
    "lists.yaml": {
        "requests": [{"method": "POST", "uri": CHAT, "body": REQUEST}],
        "responses": [{"status": {"code": 200}, "body": {"string": ANSWER}}],
    },
    "polly.har": {
        "log": {
            "entries": [
                {
                    "request": {"method": "POST", "url": CHAT, "postData": {"text": REQUEST}},
                    "response": {"status": 200, "content": {"text": ANSWER}},
                }
            ]
        }
    },
    "agent.json": {
        "request": {"method": "POST", "url": CHAT, "headers": {}, "body": REQUEST},
        "response": {"status": {"code": 200}, "headers": {}, "body": ANSWER},
    },
    "llama-stack.json": {
        "test_id": "tests/test_a.py::test_b",
        "request": {"method": "POST", "url": CHAT, "headers": {}, "body": json.loads(REQUEST)},
        "response": {
            "body": {"__type__": "openai.ChatCompletion", "__data__": json.loads(ANSWER)},
            "is_streaming": False,
        },
    },
    "anthropic/httpmock.yaml": {
        "when": {"path": "/v1/messages", "method": "POST", "body": CLAUDE_REQUEST},
        "then": {"status": 200, "header": [], "body": CLAUDE_ANSWER},
    },
    "openai/mappings/wiremock.json": {
        "request": {
            "url": "/chat/completions",
            "method": "POST",
            "bodyPatterns": [{"equalToJson": REQUEST}],
        },
        "response": {"status": 200, "bodyFileName": "answer.txt"},
    },
    "openai/__files/answer.txt": ANSWER,
    "req_llm.json": {
        "chunks": [{"b64": base64.b64encode(STREAM.encode()).decode()}],
        "request": {"method": "post", "url": CHAT, "canonical_json": json.loads(REQUEST)},
        "response": {"status": 200, "body": None},
    },
    "nock.json": [
        {
            "scope": "https://api.openai.com:443",
            "method": "POST",
            "path": "/v1/chat/completions",
            "body": json.loads(REQUEST),
            "status": 200,
            "response": json.loads(ANSWER),
        }
    ],
    "go.httprr": f"httprr trace v1\n{len(HTTP[0])} {len(HTTP[1])}\n{HTTP[0]}{HTTP[1]}",
}


def test_recordings_of_every_tool_are_read(tmp_path: Path, root: Path) -> None:
    """VCR of four languages, lists of requests and responses, HAR, ddapm, nock and others."""
    for name, content in DIALECTS.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    status, printed = run(tmp_path, root)
    assert status == 0, printed
    last = next(line for line in printed.splitlines() if line.startswith("all"))
    assert last.split()[1] == str(len(DIALECTS) - 1), printed  # a file holds an answer alone
    assert "api.anthropic.com" in printed  # a path alone is of the provider that its folder names
