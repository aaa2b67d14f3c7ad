"""All errors of the library, in one tree.

::

    AgentKitError
    ├── ConfigurationError          what the developer passed cannot work (also a ValueError)
    │   ├── MissingModelError       neither run, agent nor network has a model
    │   ├── ToolDefinitionError     a tool's name, signature or schema cannot be used
    │   └── MissingDependencyError  an optional package is not installed
    ├── ModelError                  something about one model call
    │   ├── ModelHTTPError          the provider answered with an error status
    │   │   ├── AuthenticationError     401, 403
    │   │   ├── BadRequestError         400, 404, 413, 422 and other 4xx
    │   │   │   └── ContextOverflowError    the request is longer than the model's window
    │   │   ├── RateLimitError          429
    │   │   └── ProviderUnavailableError    5xx
    │   ├── ModelTimeoutError       no answer within the model's time-out
    │   ├── ModelConnectionError    the provider could not be reached
    │   └── ModelResponseError      the answer is not what the provider's API promises
    │       └── ModelStreamError    a streamed answer broke off in the middle
    ├── NonRetriableError           raised by users: stop, and do not try this again
    ├── RetryAfterError             raised by users: stop, and try again after a while
    ├── ProcessorError              a history processor failed or returned nonsense
    ├── ToolSourceError             a server that has tools cannot be reached or used
    ├── NestingError                runs that stand in each other are too deep
    ├── RoutingError                a router returned something that is no agent
    ├── StateError                  state data cannot be used, merged or stored as JSON
    │   └── StateConflictError      two parallel tools changed one key
    ├── HistoryError                a thread could not be loaded or saved
    │   ├── ThreadNotFoundError
    │   ├── ThreadBusyError         another run is working on the thread
    │   ├── StoreVersionError       the database was written by a newer version
    │   └── InvalidRecordError      stored or imported JSON does not hold what it should
    ├── KnowledgeError              documents could not be read, stored or searched
    │   └── FilterError             a filter of documents cannot be used
    └── ScriptError                 (testing) a scripted model saw or was asked what it should not

Every error keeps its facts as attributes, so that nobody has to parse messages. The wording of
messages is not part of the public interface; the classes and attributes are. No message holds a
secret: API keys never reach this module.
"""

from __future__ import annotations

from agentkit_py.errors.base import (
    AgentKitError,
    ConfigurationError,
    MissingDependencyError,
    MissingModelError,
    ToolDefinitionError,
)
from agentkit_py.errors.model import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelConnectionError,
    ModelError,
    ModelHTTPError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
)
from agentkit_py.errors.run import (
    NestingError,
    NonRetriableError,
    ProcessorError,
    RetryAfterError,
    RoutingError,
    ScriptError,
    StateConflictError,
    StateError,
    ToolSourceError,
    passes_through,
)
from agentkit_py.errors.storage import (
    FilterError,
    HistoryError,
    InvalidRecordError,
    KnowledgeError,
    StoreVersionError,
    ThreadBusyError,
    ThreadNotFoundError,
)

__all__ = [
    "AgentKitError",
    "AuthenticationError",
    "BadRequestError",
    "ConfigurationError",
    "ContextOverflowError",
    "FilterError",
    "HistoryError",
    "InvalidRecordError",
    "KnowledgeError",
    "MissingDependencyError",
    "MissingModelError",
    "ModelConnectionError",
    "ModelError",
    "ModelHTTPError",
    "ModelResponseError",
    "ModelStreamError",
    "ModelTimeoutError",
    "NestingError",
    "NonRetriableError",
    "ProcessorError",
    "ProviderUnavailableError",
    "RateLimitError",
    "RetryAfterError",
    "RoutingError",
    "ScriptError",
    "StateConflictError",
    "StateError",
    "StoreVersionError",
    "ThreadBusyError",
    "ThreadNotFoundError",
    "ToolDefinitionError",
    "ToolSourceError",
    "passes_through",
]
