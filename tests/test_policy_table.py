"""`scripts/policy_table.py`: a page of figures from a file of conversations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_the_page_has_a_row_for_each_policy_and_nothing_of_the_conversations(
    root: Path, tmp_path: Path
) -> None:
    """No request is refused, no thread changes."""
    call = {"id": "c1", "function": {"name": "get_order", "arguments": '{"id": 7}'}}
    conversation = {
        "id": "one",
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": "Where is my zebra?"},
            {"role": "assistant", "content": None, "tool_calls": [{**call, "type": "function"}]},
            {"role": "tool", "tool_call_id": "c1", "name": "get_order", "content": "In Linz."},
            {"role": "assistant", "content": "It is in Linz."},
            {"role": "user", "content": "Thank you."},
            {"role": "assistant", "content": "You are welcome."},
        ],
    }
    source, page = tmp_path / "conversations.jsonl", tmp_path / "page.md"
    source.write_text(json.dumps(conversation) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "scripts/policy_table.py", source, "--limit", "1", "--output", page],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text = page.read_text(encoding="utf-8")
    figures, costs = text.split("## What a policy costs")
    rows = [line.split("|") for line in figures.splitlines() if line.startswith("| `")]
    assert len(rows) >= 20
    assert sum(line.startswith("| `") for line in costs.splitlines()) >= 20
    assert {(row[-3].strip(), row[-2].strip()) for row in rows} == {("0", "0")}
    assert "zebra" not in text
