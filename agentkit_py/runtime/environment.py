"""The process's environment, for layers that do no I/O themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping


def environment() -> Mapping[str, str]:
    """The environment variables of this process, as they are now."""
    return os.environ
