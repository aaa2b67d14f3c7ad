"""Tool calls that are on the wire and have no output there yet. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentkit_py.messages import ToolCall


@dataclass(slots=True, eq=False)
class OpenCall:
    """A call whose part was told."""

    message_id: str
    call: ToolCall
    part_id: str
    begun: bool = False
    """Whether it is being carried out."""


@dataclass(slots=True)
class OpenCalls:
    """The open calls of a run, in the order of their parts."""

    _calls: list[OpenCall] = field(default_factory=list[OpenCall])

    def tell(self, message_id: str, call: ToolCall, part_id: str) -> None:
        """Its part is on the wire."""
        self._calls.append(OpenCall(message_id, call, part_id))

    def waiting(self, message_id: str) -> list[OpenCall]:
        """Those of a message that nobody carries out yet."""
        return [one for one in self._calls if one.message_id == message_id and not one.begun]

    def begin(self, message_id: str, call: ToolCall) -> bool:
        """It is carried out from now on; False if it was not told."""
        known = next((one for one in self.waiting(message_id) if one.call == call), None)
        if known is not None:
            known.begun = True
        return known is not None

    def end(self, message_id: str, call: ToolCall) -> str | None:
        """It has an output: the part of the call, where that would be taken for another's.

        Readers give an output to the last open call of its message. The useAgent hook does, as
        TypeScript tells of a call right before its output. None: that is the right one.
        """
        mine = [one for one in self._calls if one.message_id == message_id]
        known = next((one for one in mine if one.begun and one.call == call), None)
        if known is None:
            return None
        self._calls.remove(known)
        return None if mine[-1] is known else known.part_id
