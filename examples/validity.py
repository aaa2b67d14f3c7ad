"""The code of docs/guides/validity.md."""

# --8<-- [start:repair]
from agentkit_py import Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ensure_valid

call = ToolCall("call_1", "track", {"parcel": 17})
broken: list[Message] = [
    ToolResultMessage(ToolCall("call_0", "track"), {"data": "Linz"}),  # its call is gone
    TextMessage("user", "Where is parcel 17?"),
    ToolCallMessage([call]),  # its result is gone
    TextMessage("user", "Never mind."),
]
whole, repairs = ensure_valid(broken)
assert [message.type for message in whole] == ["text", "tool_call", "tool_result", "text"]
assert {repair.kind for repair in repairs} == {"answered", "dropped_orphan"}
assert ensure_valid(whole)[0] is whole  # a valid list is passed on as it is
# --8<-- [end:repair]

for repair in repairs:
    print(repair)
