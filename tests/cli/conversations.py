"""One conversation with an image and a tool, as a request to each provider holds it."""

from __future__ import annotations

from typing import Any

IMAGE = "data:image/png;base64,iVBORw0KGgo="
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "chat": {
        "messages": [
            {"role": "system", "content": "Help."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {"type": "image_url", "image_url": {"url": IMAGE}},
                ],
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "look", "arguments": '{"q":1}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "1.10"},
            {"role": "assistant", "content": "A cat."},
        ]
    },
    "responses": {
        "instructions": "Help.",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "Look:"},
                    {"type": "input_image", "image_url": IMAGE},
                ],
            },
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":1}'},
            {"type": "function_call_output", "call_id": "c1", "output": "1.10"},
            {"role": "assistant", "content": "A cat."},
        ],
    },
    "anthropic": {
        "system": "Help.",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    {
                        "type": "image",
                        "source": {
                            "type": "base64",
                            "media_type": "image/png",
                            "data": "iVBORw0KGgo=",
                        },
                    },
                ],
            },
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "look", "input": {"q": 1}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "1.10"}],
            },
            {"role": "assistant", "content": "A cat."},
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": "Help."}]},
        "contents": [
            {
                "role": "user",
                "parts": [
                    {"text": "Look:"},
                    {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
                ],
            },
            {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"q": 1}}}]},
            {
                "role": "user",
                "parts": [
                    {
                        "functionResponse": {
                            "name": "look",
                            "response": {"name": "look", "content": "1.10"},
                        }
                    }
                ],
            },
            {"role": "model", "parts": [{"text": "A cat."}]},
        ],
    },
}
