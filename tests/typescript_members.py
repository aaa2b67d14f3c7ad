"""Members and options of the TypeScript package's public types, read off its declarations.

Run:
    python -m tests.typescript_members DECLARATIONS > tests/typescript_members.txt
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LISTED = Path(__file__).with_name("typescript_members.txt")

_BLOCK = re.compile(r"^(?:declare |export )*(?:class|interface|namespace|type) (\w+)[^;]*{$")
_MEMBER = re.compile(r"^(?:readonly |get |static )*(\w+)\??(?:<[^(]*>)?[:(](.*)$")
_INTERNAL = ("StreamingContext", "SequenceCounter", "SaveThreadTo", "ThreadOperation")
_HIDDEN = ("private", "protected", "constructor", "#", "_")


def members(declarations: str) -> list[str]:
    """Return each as ``Type.member``, with the types around it, sorted."""
    text = re.sub(r"/\*.*?\*/", "", declarations, flags=re.DOTALL)
    around: list[str] = []
    found: set[str] = set()
    for line in map(str.strip, text.splitlines()):
        block, member = _BLOCK.match(line), _MEMBER.match(line)
        name = member[1] if member and not line.startswith(_HIDDEN) else ""
        if block:
            name = block[1]
        elif name and around and all(around):
            found.add(".".join([*around, name]))
        opened = line.count("{") - line.count("}")
        around += [name, *([""] * (opened - 1))] if opened > 0 else []
        del around[len(around) + min(opened, 0) :]
    inside = (name for name in found if not name.startswith(_INTERNAL))
    return sorted(name for name in inside if "Event." not in name)  # chunks are the same JSON


def listed() -> list[str]:
    """Return what was read off once."""
    return LISTED.read_text(encoding="utf-8").split()


if __name__ == "__main__":
    sys.stdout.write("\n".join(members(Path(sys.argv[1]).read_text(encoding="utf-8"))) + "\n")
