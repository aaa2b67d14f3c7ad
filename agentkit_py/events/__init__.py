"""Events of a run, and the chunks that streaming makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit_py.events.approvals import (
        APPROVAL_EVENT,
        ApprovalAnswer,
        ApprovalRequest,
        Decision,
    )
    from agentkit_py.events.chunks import Chunk, EventName
    from agentkit_py.events.consume import (
        ChunkReader,
        MessageAssembler,
        PublishedChunk,
        StreamedPart,
        assemble,
    )
    from agentkit_py.events.project import Projector
    from agentkit_py.events.types import (
        AgentsRouted,
        ContextActivity,
        ContextBuilt,
        Event,
        GuardrailChecked,
        HitlRequested,
        HitlResolved,
        ModelFailedOver,
        ModelReplied,
        Observer,
        OutputDelta,
        ReplyDelta,
        RunCompleted,
        RunFailed,
        RunInterrupted,
        RunStarted,
        ToolFinished,
        ToolProgressed,
        ToolStarted,
    )

__all__ = [
    "APPROVAL_EVENT",
    "AgentsRouted",
    "ApprovalAnswer",
    "ApprovalRequest",
    "Chunk",
    "ChunkReader",
    "ContextActivity",
    "ContextBuilt",
    "Decision",
    "Event",
    "EventName",
    "GuardrailChecked",
    "HitlRequested",
    "HitlResolved",
    "MessageAssembler",
    "ModelFailedOver",
    "ModelReplied",
    "Observer",
    "OutputDelta",
    "Projector",
    "PublishedChunk",
    "ReplyDelta",
    "RunCompleted",
    "RunFailed",
    "RunInterrupted",
    "RunStarted",
    "StreamedPart",
    "ToolFinished",
    "ToolProgressed",
    "ToolStarted",
    "assemble",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.events.approvals": "APPROVAL_EVENT ApprovalAnswer ApprovalRequest "
            "Decision",
            "agentkit_py.events.chunks": "Chunk EventName",
            "agentkit_py.events.consume": "ChunkReader MessageAssembler PublishedChunk "
            "StreamedPart assemble",
            "agentkit_py.events.project": "Projector",
            "agentkit_py.events.types": "AgentsRouted ContextActivity ContextBuilt Event "
            "GuardrailChecked HitlRequested HitlResolved ModelFailedOver "
            "ModelReplied Observer OutputDelta ReplyDelta RunCompleted "
            "RunFailed RunInterrupted RunStarted ToolFinished ToolProgressed ToolStarted",
        },
    )
