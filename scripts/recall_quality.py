#!/usr/bin/env python3
"""Print how much of the evidence `Recall` finds in conversations of LoCoMo.

    scripts/recall_quality.py FILE… [--only 26 30 41 42 43] [--folder MODEL]

FILE is ``data/locomo10.json`` of the public repository snap-research/locomo, which is not part of
this one, or one of its conversations. What the first speaker says is the user's, the rest the
assistant's, so a turn of `Recall` is a pair; a picture stands as its caption. Each question is
asked after the whole conversation. Printed are means over questions with evidence:

- five turns: the share of the evidence in five turns that are sent, and nothing beside them;
- neighbours: the same with the turns next to those, as far as ``max_tokens`` has room;
- session first: whether the first turn found is of a session that has evidence.

Then, for several conversations, the share of the evidence among five turns in all, the best ones
each with those beside it: with the weights as they are, and leaving one conversation out in turn,
with weights chosen on the others. FOLDER holds the model of `LocalEmbedder`; else that of the
tests. Nothing of the data is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from agentkit_py import Message, TextMessage  # noqa: E402 - the path is set first
from agentkit_py.knowledge import LocalEmbedder  # noqa: E402 - the path is set first
from agentkit_py.processors import (  # noqa: E402 - the path is set first
    MemoryIndex,
    ProcessorContext,
    Recall,
    apply_processors,
)
from agentkit_py.search import TURNS as DEFAULT  # noqa: E402 - the path is set first
from agentkit_py.search import Weights, by_words, ranked  # noqa: E402 - the path is set first
from tests.knowledge.minilm import local_embedder  # noqa: E402 - the path is set first
from tests.knowledge.retrieval import Remembering  # noqa: E402 - the path is set first

TURNS = 5
SAMPLE = 4
"""Weights are chosen on every fourth question."""

GRID = [
    replace(DEFAULT, words=words, beside=beside, length=length)
    for words, beside, length in product((0.5, 0.7, 0.9), (0, 0.2, 0.5), (0.4, 0.75))
]
_EVIDENCE = re.compile(r"D\d+:\d+")


@dataclass(frozen=True)
class Said:
    """What somebody said."""

    id: str
    session: int
    message: Message
    at: datetime


@dataclass(frozen=True)
class Talk:
    """A conversation with its questions."""

    name: str
    said: Sequence[Said]
    questions: Sequence[tuple[str, frozenset[str]]]
    """Each with the ids of its evidence."""

    def turns(self) -> list[list[Said]]:
        """Return the pairs."""
        found: list[list[Said]] = []
        for one in self.said:
            if one.message.role == "user" or not found:
                found.append([])
            found[-1].append(one)
        return found


def read(files: Sequence[Path], only: Sequence[str]) -> list[Talk]:
    """Read the conversations; of a list, each is named by its ``sample_id``."""
    talks: list[Talk] = []
    for file in files:
        found: Any = json.loads(file.read_text("utf-8"))
        conversations: list[dict[str, Any]] = [found] if isinstance(found, dict) else found
        for one in conversations:
            name = re.sub(r"\D", "", str(one.get("sample_id", file.stem)))
            if not only or name in only:
                talks.append(_talk(name, one.get("conversation", one), one["qa"]))
    return talks


def _talk(name: str, record: dict[str, Any], qa: Sequence[dict[str, Any]]) -> Talk:
    said: list[Said] = []
    sessions = sorted(int(key[8:]) for key in record if re.fullmatch(r"session_\d+", key))
    for session in sessions:
        when = record[f"session_{session}_date_time"]
        at = datetime.strptime(when, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        for line in record[f"session_{session}"]:
            caption = f" [{line['blip_caption']}]" if "blip_caption" in line else ""
            text = f"{line['speaker']}: {line['text']}{caption}"
            role = "user" if line["speaker"] == record["speaker_a"] else "assistant"
            said.append(Said(line["dia_id"], session, TextMessage(role, text), at))
    known = {one.id for one in said}
    questions = [
        (str(one["question"]), frozenset(_EVIDENCE.findall(" ".join(one["evidence"]))) & known)
        for one in qa
    ]
    return Talk(name, said, [one for one in questions if one[1]])


async def sent(talk: Talk, recall: Recall, question: str) -> list[Said]:
    """Return what of the conversation `Recall` sends with a question."""
    times = {id(one.message): one.at for one in talk.said}
    context = ProcessorContext(
        input=question, now=talk.said[-1].at, times=lambda: times, thread_id=talk.name
    )
    left = await apply_processors([one.message for one in talk.said], [recall], context)
    text = _plain("\n".join(m.text for m in left if isinstance(m, TextMessage))) + " "
    return [one for one in talk.said if _plain(f"{one.message.role}: {_text(one)}") + " " in text]


async def as_sent(talk: Talk, embedder: Remembering) -> tuple[float, float, float]:
    """Return the three figures of `Recall` as it is."""
    index = MemoryIndex()
    five = Recall(embedder, TURNS, keep_recent=0, neighbours=0, index=index, max_tokens=10_000)
    beside = Recall(embedder, TURNS, keep_recent=0, index=index)
    first = Recall(embedder, 1, keep_recent=0, neighbours=0, index=index, max_tokens=10_000)
    rows: list[tuple[float, float, float]] = []
    for question, evidence in talk.questions:
        sessions = {one.session for one in talk.said if one.id in evidence}
        shares = [
            len({one.id for one in await sent(talk, recall, question)} & evidence) / len(evidence)
            for recall in (five, beside)
        ]
        best = {one.session for one in await sent(talk, first, question)}
        rows.append((shares[0], shares[1], float(not best.isdisjoint(sessions))))
    return mean(r[0] for r in rows), mean(r[1] for r in rows), mean(r[2] for r in rows)


async def by_weights(
    talk: Talk, embedder: Remembering, grid: Sequence[Weights], sample: int = 1
) -> dict[Weights, tuple[float, float]]:
    """Return the shares of evidence and of sessions for each choice of weights."""
    turns = talk.turns()
    texts = ["\n".join(f"{o.message.role}: {_text(o)}" for o in turn) for turn in turns]
    vectors = await embedder.embed(texts)
    asked = await embedder.embed([question for question, _ in talk.questions])
    found: dict[Weights, list[tuple[float, float]]] = {weights: [] for weights in grid}
    for (question, evidence), sought in list(zip(talk.questions, asked, strict=True))[::sample]:
        sessions = {one.session for one in talk.said if one.id in evidence}
        near = {
            place: sum(a * b for a, b in zip(sought, vector, strict=True))
            for place, vector in enumerate(vectors)
        }
        shares: dict[float, list[float]] = {}
        for weights, rows in found.items():
            if weights.length not in shares:
                shares[weights.length] = by_words(question, texts, weights)
            found_words = shares[weights.length]
            scored = ranked(question, texts, near, weights=weights, shares=found_words)
            order = [place for place, _ in scored]
            places = (p for best in order for p in (best, best - 1, best + 1))
            five = list(dict.fromkeys(p for p in places if 0 <= p < len(turns)))[:TURNS]
            ids = {one.id for place in five for one in turns[place]}
            share = len(ids & evidence) / len(evidence)
            rows.append((share, float(turns[order[0]][0].session in sessions)))
    return {w: (mean(r[0] for r in rows), mean(r[1] for r in rows)) for w, rows in found.items()}


def _plain(text: str) -> str:
    return " ".join(text.split())


def _text(one: Said) -> str:
    return one.message.text if isinstance(one.message, TextMessage) else ""


async def measure(talks: Sequence[Talk], embedder: Remembering) -> None:
    """Print the figures."""
    print("conversation  questions  five turns  neighbours  session first")
    rows: list[tuple[float, float, float]] = []
    for talk in talks:
        rows.append(await as_sent(talk, embedder))
        figures = "".join(f"{one:>12.3f}" for one in rows[-1])
        print(f"{talk.name:>12}  {len(talk.questions):>9}{figures}")
    print(f"{'mean':>12}  {'':>9}" + "".join(f"{mean(c):>12.3f}" for c in zip(*rows, strict=True)))
    if len(talks) > 1:
        await leave_one_out(talks, embedder)


async def leave_one_out(talks: Sequence[Talk], embedder: Remembering) -> None:
    """Print the figures of each conversation with the weights that the others choose."""
    grids = [await by_weights(talk, embedder, GRID, SAMPLE) for talk in talks]
    rows: list[tuple[float, ...]] = []
    print(
        "\nconversation  five in all  session first   left out  session first  chosen on the others"
    )
    for place, talk in enumerate(talks):
        others = [grid for number, grid in enumerate(grids) if number != place]
        scores = {w: mean(sum(grid[w]) for grid in others) for w in GRID}
        best = max(GRID, key=scores.__getitem__)
        found = await by_weights(talk, embedder, [DEFAULT, best])
        rows.append((*found[DEFAULT], *found[best]))
        print(f"{talk.name:>12}{_cells(rows[-1])}  {best}")
    print(f"{'mean':>12}{_cells([mean(column) for column in zip(*rows, strict=True)])}")


def _cells(figures: Sequence[float]) -> str:
    return "".join(
        f"{one:>{width}.3f}" for one, width in zip(figures, (13, 15, 11, 15), strict=True)
    )


def main() -> int:
    """Read, measure, print."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--only", nargs="+", default=(), help="numbers of conversations")
    parser.add_argument("--folder", type=Path, default=None, help="a model of LocalEmbedder")
    options = parser.parse_args()
    talks = read(options.files, options.only)
    if not talks:
        parser.error("there is no such conversation in the files")
    with tempfile.TemporaryDirectory(prefix="agentkit-locomo-") as folder:
        model = options.folder
        inner = local_embedder(Path(folder)) if model is None else LocalEmbedder(folder=model)
        asyncio.run(measure(talks, Remembering(inner)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
