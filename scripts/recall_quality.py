#!/usr/bin/env python3
"""Print how much of the evidence `Recall` finds in conversations of LoCoMo.

    scripts/recall_quality.py CONVERSATION.json ...

Each file is one element of ``data/locomo10.json`` of the public repository snap-research/locomo,
which is not part of this one. Turns are made as `Recall` makes them; the first speaker is the user.
*Evidence* is the share of a question's evidence turns among five turns: the best, each with those
next to it. *Hit@1* says whether the best turn is of a session that has evidence. Questions without
evidence are left out. Needs fastembed and the model's packages, which scripts/setup dev installs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agentkit_py.processors.vectors import Vector, nearest, normalized, ranked  # noqa: E402
from tests.knowledge.minilm import local_embedder  # noqa: E402

SENT = 5
"""The turns that are sent for a question, neighbours counted."""


@dataclass(frozen=True)
class Turn:
    """What the user said, with all that followed."""

    session: int
    said: dict[str, str]
    """Texts by the ids that evidence names."""

    @property
    def text(self) -> str:
        """The text that is embedded."""
        return "\n".join(self.said.values())


def turns_of(conversation: dict[str, Any]) -> list[Turn]:
    """Return the turns of a conversation, in order."""
    found: list[Turn] = []
    sessions = sorted(
        int(m[1]) for m in map(re.compile(r"session_(\d+)$").match, conversation) if m
    )
    for session in sessions:
        for one in conversation[f"session_{session}"]:
            is_user = one["speaker"] == conversation["speaker_a"]
            if is_user or not found or found[-1].session != session:
                found.append(Turn(session, {}))
            shared = f" [shares {one['blip_caption']}]" if one.get("blip_caption") else ""
            found[-1].said[one["dia_id"]] = f"{one['speaker']}: {one['text']}{shared}"
    return found


def sent(order: list[int], count: int) -> list[int]:
    """Return the turns that are sent: the best, each with those beside it."""
    places = [p for best in order for p in (best, best - 1, best + 1) if 0 <= p < count]
    return list(dict.fromkeys(places))[:SENT]


async def measured(given: dict[str, Any], embed: Any) -> list[tuple[float, float]]:
    """Return evidence and hit of each question of a conversation."""
    turns = turns_of(given.get("conversation", given))
    texts = [turn.text for turn in turns]
    place = {one: index for index, turn in enumerate(turns) for one in turn.said}
    questions = [
        (q["question"], re.findall(r"D\d+:\d+", " ".join(q["evidence"]))) for q in given["qa"]
    ]
    asked = [(q, {place[one] for one in ids if one in place}) for q, ids in questions]
    asked = [(question, evidence) for question, evidence in asked if evidence]
    known: dict[str, Vector] = {
        str(index): normalized(vector) for index, vector in enumerate(await embed(texts))
    }
    found: list[tuple[float, float]] = []
    for (question, evidence), vector in zip(
        asked, await embed([question for question, _ in asked]), strict=True
    ):
        near = {int(one): likeness for one, likeness in nearest(vector, known, len(known))}
        order = ranked(question, texts, near)
        share = len(evidence.intersection(sent(order, len(turns)))) / len(evidence)
        sessions = {turns[index].session for index in evidence}
        found.append((share, float(turns[order[0]].session in sessions)))
    return found


async def run(files: list[Path]) -> None:
    """Measure and print."""
    rows: list[tuple[float, float]] = []
    print(f"{'conversation':24} questions  evidence  Hit@1")
    with tempfile.TemporaryDirectory() as folder:
        embedder = local_embedder(Path(folder))
        for path in files:
            found = await measured(json.loads(path.read_text("utf-8")), embedder.embed)
            row = (sum(a for a, _ in found) / len(found), sum(b for _, b in found) / len(found))
            rows.append(row)
            print(f"{path.stem[:24]:24} {len(found):9}  {row[0]:8.3f}  {row[1]:5.3f}")
    means = [sum(one) / len(rows) for one in zip(*rows, strict=True)]
    print(f"{'mean':24} {'':9}  {means[0]:8.3f}  {means[1]:5.3f}")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description="How much of the evidence Recall finds.")
    parser.add_argument("files", nargs="+", type=Path, metavar="CONVERSATION.json")
    asyncio.run(run(parser.parse_args().files))


if __name__ == "__main__":
    main()
