"""Conversations of data sets and other programs, read as messages of OpenAI's chat format.

- tau2: a simulation with its ``messages``, whose calls are flat; calls that the simulated user
  makes are not the agent's, and are left out.
  Source: github.com/sierra-research/tau2-bench, data_model/message.py
- ShareGPT: ``conversations`` of ``from`` and ``value``, calls as ``function_call`` and
  ``observation`` or in ``<tool_call>`` tags.
  Source: github.com/hiyouga/LLaMA-Factory, data/README.md
- BFCL: the ``question`` of a task, turn by turn; without replies.
- SWE-agent: the ``history`` of a trajectory, or its steps.
  Source: swe-agent.com, usage/trajectories
- OpenHands: events, as files of its server and of its SDK have them, or an event a line.
  Source: github.com/OpenHands/OpenHands, events/serialization
- Alpaca: ``instruction`` with its ``input``, and the ``output``.
  Source: github.com/hiyouga/LLaMA-Factory, data/README.md
- Chat messages with ``function_call`` and the role ``function``, and results without an id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from agentkit_py._core.json import as_list, as_object, dumps, strict_loads
from agentkit_py.errors import InvalidRecordError

ChatMessage: TypeAlias = dict[str, Any]


def as_chat(record: Mapping[str, Any], where: str = "record") -> Mapping[str, Any]:
    """Return a record with its conversation as ``messages``; records in that form are unchanged.

    Raises:
        InvalidRecordError: A result answers no call; the error names the message.
    """
    read = _reader_of(record)
    if read is not None:
        return _named(record, _with_ids(read(record), where))
    messages = as_list(record.get("messages"))
    if messages is None or not any(_is_odd(as_object(one) or {}) for one in messages):
        return record
    flat = [one for message in messages for one in _plain(as_object(message))]
    return {**record, "messages": _with_ids(flat, where)}


def records_of(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield records as lines of JSON: the lines, or the records of a document on several lines.

    Lines that are events of OpenHands are a conversation together.
    """
    source = iter(lines)
    first = next((line for line in source if line.strip()), b"")
    if first.strip() not in (b"{", b"["):
        if _is_event(_object_in(first)) and not _object_in(first).keys() & _CONVERSATIONS:
            yield from _events_in([first, *(line for line in source if line.strip())])
            return
        yield first
        yield from source
        return
    whole = first + b"".join(source)
    try:
        found: Any = strict_loads(whole.decode("utf-8-sig"))
    except ValueError:
        yield whole  # its reader reports the problem
        return
    for record in _records_in(found):
        yield dumps(record).encode("utf-8", "surrogatepass") + b"\n"


_CONVERSATIONS = frozenset({"messages", "input", "contents", "history", "events", "thread_id"})


def _object_in(line: bytes) -> Mapping[str, Any]:
    try:
        return as_object(strict_loads(line.decode("utf-8-sig"))) or {}
    except ValueError:
        return {}


def _events_in(lines: list[bytes]) -> Iterator[bytes]:
    """Yield the events of all lines as a record; the lines as they are if some are no events."""
    events = [_object_in(line) for line in lines]
    if not all(map(_is_event, events)):
        yield from lines
        return
    yield dumps({"history": [dict(event) for event in events]}).encode("utf-8", "surrogatepass")


def _records_in(document: Any) -> list[Any]:
    listed = as_list(document)
    if listed is None:
        simulations = as_list((as_object(document) or {}).get("simulations"))
        return [document] if simulations is None else simulations
    if listed and all(_is_event(as_object(one) or {}) for one in listed):
        return [{"history": listed}]
    return listed


def _reader_of(record: Mapping[str, Any]) -> Any:
    history = [as_object(one) or {} for one in as_list(record.get("history")) or ()]
    if isinstance(record.get("conversations"), list):
        return _sharegpt
    if isinstance(record.get("instruction"), str) and isinstance(record.get("output"), str):
        return _alpaca
    if _is_turns(record.get("question")) and "messages" not in record:
        return _bfcl
    if history and all("role" in one for one in history):
        return _swe_agent_history
    if history and all(map(_is_event, history)):
        return _openhands
    if as_list(record.get("events")) and all(map(_is_event, _objects(record["events"]))):
        return _openhands
    if "agent_chunk" in _first(record.get("ticks")) and not record.get("messages"):
        return _tau2_voice
    if "action" in _first(record.get("trajectory")):
        return _swe_agent_steps
    return None


def _first(value: object) -> ChatMessage:
    found = _objects(value)
    return found[0] if found else {}


def _objects(value: object) -> list[ChatMessage]:
    return [found for one in as_list(value) or () if (found := as_object(one)) is not None]


def _named(record: Mapping[str, Any], messages: list[ChatMessage]) -> ChatMessage:
    """Return a line with a conversation, under the id that its record has."""
    names = (record.get(name) for name in ("id", "instance_id", "task_id", "conversation_id"))
    name = next((str(one) for one in names if one not in (None, "")), None)
    return {"messages": messages} if name is None else {"id": name, "messages": messages}


# Chat messages that are not quite OpenAI's.


def _is_odd(message: Mapping[str, Any]) -> bool:
    """Return whether a message has a form that OpenAI's chat format does not have, or no more."""
    if message.get("role") == "function" or as_object(message.get("function_call")):
        return True
    if "tool_messages" in message or message.get("requestor") == "user":
        return True
    if message.get("role") == "tool":
        return not message.get("tool_call_id")
    return any("function" not in call and "name" in call for call in _objects(_calls(message)))


def _calls(message: Mapping[str, Any]) -> object:
    return message.get("tool_calls") if message.get("role") in ("assistant", "user") else None


def _plain(message: ChatMessage | None) -> list[ChatMessage]:
    """Return a message in OpenAI's form; tau2's may hold several results, or be of its user's."""
    if message is None:
        return []
    if "tool_messages" in message:
        return [one for inner in _objects(message["tool_messages"]) for one in _plain(inner)]
    role, calls = message.get("role"), _objects(message.get("tool_calls"))
    if message.get("requestor") == "user":
        return []
    if role == "user" and calls:  # the simulated user's own tools
        content = message.get("content")
        return [{"role": "user", "content": content}] if content else []
    if role == "function":
        kept = {name: message[name] for name in ("name", "content") if name in message}
        return [{"role": "tool", **kept}]
    if role == "tool":
        return [{**message, "tool_call_id": _id_in(message)}]
    if old := as_object(message.get("function_call")):
        calls = [*calls, old]
    rest = {k: v for k, v in message.items() if k not in ("tool_calls", "function_call")}
    return [{**rest, "tool_calls": [_call(one) for one in calls]}] if calls else [rest]


def _id_in(message: Mapping[str, Any]) -> str:
    ids = as_list(message.get("tool_call_ids")) or ()
    given = [message.get("tool_call_id"), *ids, message.get("id")]
    return next((one for one in given if isinstance(one, str) and one), "")


def _call(call: ChatMessage) -> ChatMessage:
    """Return a call in OpenAI's form; a flat call has its name and arguments next to its id."""
    function = as_object(call.get("function")) or call
    arguments = function.get("arguments", function.get("parameters"))
    written = arguments if isinstance(arguments, str) else dumps(arguments or {})
    name = str(function.get("name") or "")
    call_id = call.get("id") if isinstance(call.get("id"), str) else ""
    said = {"name": name, "arguments": written}
    return {"id": call_id, "type": "function", "function": said}


def _with_ids(messages: list[ChatMessage], where: str) -> list[ChatMessage]:
    """Return the messages with an id on each call and result: results find their calls."""
    waiting: list[tuple[str, str]] = []
    found: list[ChatMessage] = []
    for index, message in enumerate(messages):
        if message.get("role") == "assistant":
            calls = [_numbered(call, index, n) for n, call in _numbers(message)]
            waiting += [(call["id"], call["function"]["name"]) for call in calls]
            found.append({**message, "tool_calls": calls} if calls else message)
        elif message.get("role") == "tool":
            call_id = _answered(message, waiting)
            if not call_id:
                raise InvalidRecordError(
                    f"this result of {message.get('name') or 'a tool'!r:.80} answers no call",
                    where=where,
                    field=f"messages[{index}].role",
                )
            rest = {k: v for k, v in message.items() if k not in ("tool_call_ids", "id")}
            found.append({**rest, "tool_call_id": call_id})
        else:
            found.append(message)
    return found


def _answered(message: ChatMessage, waiting: list[tuple[str, str]]) -> str:
    """Return the id of the call that a result answers; empty: there is none.

    By id, by name, else in order, among those that nothing has answered yet.
    """
    given, name = str(message.get("tool_call_id") or ""), message.get("name")
    fitting = [one for one in waiting if given and one[0] == given]
    if not fitting and name:
        fitting = [one for one in waiting if one[1] == name]
    if not fitting and not given and not name:
        fitting = waiting
    if not fitting:
        return given
    call = fitting[0]
    waiting.remove(call)
    return call[0]


def _numbers(message: ChatMessage) -> list[tuple[int, ChatMessage]]:
    return list(enumerate(_objects(message.get("tool_calls"))))


def _numbered(call: ChatMessage, index: int, number: int) -> ChatMessage:
    return call if call.get("id") else {**call, "id": f"call_{index}_{number}"}


# ShareGPT.

_SPEAKERS = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model", "chatgpt", "bing", "bard"), "assistant"),
    "system": "system",
    **dict.fromkeys(("function_call", "tool_call"), "call"),
    **dict.fromkeys(("observation", "tool", "function_response", "function", "ipython"), "tool"),
}
_CALL_TAG = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_RESULT_TAG = re.compile(r"<tool_response>\s*(.*?)\s*</tool_response>", re.DOTALL)


def _sharegpt(record: Mapping[str, Any]) -> list[ChatMessage]:
    found: list[ChatMessage] = []
    if isinstance(record.get("system"), str) and record["system"]:
        found.append({"role": "system", "content": record["system"]})
    for index, one in enumerate(_objects(record.get("conversations"))):
        speaker = str(one.get("from") or one.get("role"))
        value = one.get("value", one.get("content"))
        text = value if isinstance(value, str) else dumps(value)
        role = _SPEAKERS.get(speaker)
        if role is None:
            problem = f"expected human, gpt, system, function_call or observation, got {speaker!r}"
            raise InvalidRecordError(problem, where="record", field=f"conversations[{index}].from")
        if role == "call":
            found.append({"role": "assistant", "content": None, "tool_calls": _calls_in(text)})
        elif role == "assistant":
            found.append(_said(text))
        elif role == "tool":
            results = _RESULT_TAG.findall(text) or [text]
            found += [{"role": "tool", "content": _content_in(result)} for result in results]
        else:
            found.append({"role": role, "content": text})
    return found


def _said(text: str) -> ChatMessage:
    calls = [call for tag in _CALL_TAG.findall(text) for call in _calls_in(tag)]
    rest = _CALL_TAG.sub("", text).strip() if calls else text
    if not calls:
        return {"role": "assistant", "content": rest}
    return {"role": "assistant", "content": rest or None, "tool_calls": calls}


def _calls_in(text: str) -> list[ChatMessage]:
    """Return the calls in a JSON text, a call or a list; other text is a malformed call."""
    try:
        value: Any = strict_loads(text)
    except ValueError:
        value = {"name": "unknown", "arguments": text}
    listed = [value] if as_list(value) is None else value
    calls = [_call(one) for one in _objects(listed)]
    return calls or [_call({"name": "unknown", "arguments": text})]


def _content_in(text: str) -> str:
    """Return a tool's result: Hermes writes its name next to it."""
    try:
        found = as_object(strict_loads(text))
    except ValueError:
        return text
    if found is None or not found.keys() >= {"name", "content"}:
        return text
    content = found["content"]
    return content if isinstance(content, str) else dumps(content)


# BFCL.


def _tau2_voice(_: Mapping[str, Any]) -> list[ChatMessage]:
    words = (
        "a voice simulation of tau2 holds sounds of both sides at once (ticks) in place of "
        "messages; export its transcript, or import simulations in text"
    )
    raise InvalidRecordError(words, where="record", field="ticks")


def _is_turns(value: object) -> bool:
    turns = as_list(value)
    return bool(turns) and all(isinstance(turn, list) for turn in turns or ())


def _bfcl(record: Mapping[str, Any]) -> list[ChatMessage]:
    return [dict(one) for turn in as_list(record["question"]) or () for one in _objects(turn)]


# SWE-agent.


def _swe_agent_history(record: Mapping[str, Any]) -> list[ChatMessage]:
    kept = ("role", "content", "tool_calls", "tool_call_ids", "tool_call_id", "name")
    found: list[ChatMessage] = []
    for message in _objects(record.get("history")):
        said = {name: message[name] for name in kept if message.get(name) is not None}
        found += _plain({"content": None, **said})
    return found


def _swe_agent_steps(record: Mapping[str, Any]) -> list[ChatMessage]:
    """Return the steps of a trajectory: a thought, a command and its output."""
    first = _first(record.get("trajectory"))
    asked = _objects(first.get("query")) or _objects(first.get("messages"))
    found = [{"role": m.get("role"), "content": m.get("content")} for m in asked]
    for step in _objects(record.get("trajectory")):
        thought = step.get("thought") or step.get("response") or None
        action = str(step.get("action") or "")
        if not action.strip():
            found.append({"role": "assistant", "content": thought or ""})
            continue
        call = _call({"name": "bash", "arguments": {"command": action}})
        found.append({"role": "assistant", "content": thought, "tool_calls": [call]})
        found.append({"role": "tool", "content": str(step.get("observation") or "")})
    return found


# Alpaca.


def _alpaca(record: Mapping[str, Any]) -> list[ChatMessage]:
    found: list[ChatMessage] = []
    if isinstance(record.get("system"), str) and record["system"]:
        found.append({"role": "system", "content": record["system"]})
    for turn in as_list(record.get("history")) or ():
        for role, text in zip(("user", "assistant"), as_list(turn) or (), strict=False):
            found.append({"role": role, "content": str(text)})
    asked = [record["instruction"], record.get("input")]
    question = "\n".join(text for text in asked if isinstance(text, str) and text)
    return [
        *found,
        {"role": "user", "content": question},
        {"role": "assistant", "content": record["output"]},
    ]


# OpenHands.

_UNSAID = frozenset({"recall", "change_agent_state", "null", "condensation", "agent_state_changed"})


def _is_event(event: Mapping[str, Any]) -> bool:
    return "source" in event and bool({"action", "observation", "kind"} & event.keys())


def _openhands(record: Mapping[str, Any]) -> list[ChatMessage]:
    found: list[ChatMessage] = []
    calls: set[str] = set()
    for event in _objects(record.get("history") or record.get("events")):
        message = _of_sdk(event) if "kind" in event else _of_event(event)
        if message is None:
            continue
        if message["role"] == "tool" and message["tool_call_id"] not in calls:
            continue  # an observation that answers none of the agent's calls
        calls |= {call["id"] for call in message.get("tool_calls") or ()}
        found.append(message)
    return found


def _of_event(event: ChatMessage) -> ChatMessage | None:
    """Return an event of OpenHands as a message; None: it says nothing to the model."""
    about = as_object(event.get("tool_call_metadata")) or {}
    given = as_object(event.get("args")) or {}
    kind = str(event.get("action") or event.get("observation") or "")
    if kind in _UNSAID:
        return None
    if "observation" in event:
        call_id = about.get("tool_call_id") or f"event_{event.get('cause')}"
        return {"role": "tool", "tool_call_id": call_id, "content": str(event.get("content") or "")}
    if kind == "system":
        return {"role": "system", "content": str(given.get("content") or "")}
    if event.get("source") == "user":
        return {"role": "user", "content": str(given.get("content") or "")}
    thought = given.get("thought") or given.get("final_thought") or ""
    if kind in ("message", "finish") or event.get("source") != "agent":
        return {"role": "assistant", "content": str(given.get("content") or thought)}
    arguments = {name: value for name, value in given.items() if name != "thought"}
    name = str(about.get("function_name") or kind)
    call_id = about.get("tool_call_id") or f"event_{event.get('id')}"
    written = _written_in(about, call_id)
    call = _call({"id": call_id, "name": name, "arguments": written or arguments})
    return {"role": "assistant", "content": thought or None, "tool_calls": [call]}


def _written_in(about: Mapping[str, Any], call_id: Any) -> str:
    """Return the arguments as the model wrote them, which the event keeps with its reply."""
    response = as_object(about.get("model_response")) or {}
    for choice in _objects(response.get("choices")):
        for call in _objects((as_object(choice.get("message")) or {}).get("tool_calls")):
            written = (as_object(call.get("function")) or {}).get("arguments")
            if call.get("id") == call_id and isinstance(written, str):
                return written
    return ""


def _of_sdk(event: ChatMessage) -> ChatMessage | None:
    """Return an event of OpenHands' SDK as a message; None: it says nothing to the model."""
    match event.get("kind"):
        case "SystemPromptEvent":
            return {"role": "system", "content": _texts(event.get("system_prompt"))}
        case "MessageEvent":
            said = as_object(event.get("llm_message")) or {}
            return {"role": said.get("role"), "content": _texts(said.get("content"))}
        case "ActionEvent":
            call = as_object(event.get("tool_call")) or {}
            name = event.get("tool_name") or call.get("name")
            known = {"id": event.get("tool_call_id"), "name": name}
            made = _call({**known, "arguments": _call(call)["function"]["arguments"]})
            thought = _texts(event.get("thought"))
            return {"role": "assistant", "content": thought or None, "tool_calls": [made]}
        case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
            shown = as_object(event.get("observation")) or {}
            failed = event.get("error") or event.get("rejection_reason")
            text = _texts(shown.get("content")) or failed or json.dumps(shown)
            return {"role": "tool", "tool_call_id": event.get("tool_call_id"), "content": text}
        case _:
            return None


def _texts(content: Any) -> str:
    """Return the text of a content: a text, a part with a text, or a list of parts."""
    if isinstance(content, str):
        return content
    parts = _objects(content) or _objects([content])
    return "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))
