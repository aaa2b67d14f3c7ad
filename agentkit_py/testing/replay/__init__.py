"""Recorded conversations, run again through a network: what `agentkit replay` does.

A recording's assistant messages are the model's replies, given by a strict `FakeProvider` over real
HTTP; its tool messages are what the tools answer. Afterwards the stored thread is compared with the
recording, message for message.
"""

from agentkit_py.testing.replay.figures import Figures, Outcome
from agentkit_py.testing.replay.network import RecordedNetwork
from agentkit_py.testing.replay.own_network import OwnNetwork
from agentkit_py.testing.replay.providers import PROVIDERS
from agentkit_py.testing.replay.recording import Conversation, read_conversations
from agentkit_py.testing.replay.runner import Pass, Replay

__all__ = [
    "PROVIDERS",
    "Conversation",
    "Figures",
    "Outcome",
    "OwnNetwork",
    "Pass",
    "RecordedNetwork",
    "Replay",
    "read_conversations",
]
