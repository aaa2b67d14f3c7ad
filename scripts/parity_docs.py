"""Write docs/parity.md from the manifest of differences and the table of names.

Run:
    python scripts/parity_docs.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.parity.page import page  # noqa: E402 - found through the line before

PAGE = ROOT / "docs" / "parity.md"


def main() -> int:
    """Write the page, or say whether it is up to date."""
    text = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
