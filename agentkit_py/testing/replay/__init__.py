"""Recorded conversations, run again through a network: the base of `agentkit replay`.

A recording's assistant messages are the model's replies, given by a strict `FakeProvider` over real
HTTP; its tool messages are the tools' results. Afterwards the stored thread is compared with the
recording, message for message.
"""

from agentkit_py.testing.replay.fit_picture import picture
from agentkit_py.testing.replay.fitting import CANDIDATES, Candidate, Fit, fit
from agentkit_py.testing.replay.networks import OwnNetwork, RecordedNetwork
from agentkit_py.testing.replay.recording import Conversation, read_conversations
from agentkit_py.testing.replay.runner import PROVIDERS, Pass, Replay, ReplayFigures, ReplayOutcome
from agentkit_py.testing.replay.survival import STOCK, Loss, Survival, survival

__all__ = [
    "CANDIDATES",
    "PROVIDERS",
    "STOCK",
    "Candidate",
    "Conversation",
    "Fit",
    "Loss",
    "OwnNetwork",
    "Pass",
    "RecordedNetwork",
    "Replay",
    "ReplayFigures",
    "ReplayOutcome",
    "Survival",
    "fit",
    "picture",
    "read_conversations",
    "survival",
]
