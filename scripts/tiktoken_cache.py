"""Fill ``.cache/tiktoken`` of this repository, for its tests: see `agentkit_py.tiktoken_cache`.

Run:
    python scripts/tiktoken_cache.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentkit_py.tiktoken_cache import main

FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "tiktoken"

if __name__ == "__main__":
    sys.exit(main([str(FOLDER), *sys.argv[1:]]))
