"""A small support corpus, made by rules, with questions whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from agentkit_py.testing.embedder import HashingEmbedder

PRODUCTS = ("router", "camera", "printer", "speaker", "thermostat", "headset")

# What happens, how the documents say it, and how customers say it.
TOPICS = (
    ("refund", "A refund for a {p} is issued within ten days", "get my money back for the {p}"),
    ("shipping", "Delivery of a {p} takes three days", "when will my {p} arrive"),
    ("repair", "A defective {p} is repaired free of charge", "my {p} is broken, fix it"),
    ("password", "Reset the password of the {p} in its menu", "forgot the login of my {p}"),
    ("battery", "The battery of the {p} lasts eight hours", "how long does the {p} run unplugged"),
    ("invoice", "The invoice for a {p} is sent by mail", "need the bill for my {p}"),
    ("warranty", "The warranty of a {p} covers two years", "is my {p} still under guarantee"),
    (
        "cancel",
        "An order of a {p} may be cancelled at once",
        "do not want the {p} any more, stop it",
    ),
)

# Words that mean the same, as a model of meaning knows them.
SYNONYMS = {
    "refund": "money back",
    "delivery": "when arrive shipped",
    "defective": "broken",
    "repaired": "fix",
    "password": "login forgot",
    "battery": "unplugged",
    "lasts": "long run",
    "invoice": "bill",
    "warranty": "guarantee",
    "cancelled": "stop want",
}

Kind = Literal["identifier", "paraphrase", "wording"]


@dataclass(frozen=True)
class Question:
    """A question, and the source of its answer."""

    kind: Kind
    text: str
    answer: str


def documents() -> dict[str, str]:
    """Texts by source; each has an error code of its own."""
    found: dict[str, str] = {}
    for p, product in enumerate(PRODUCTS):
        for t, (topic, text, _) in enumerate(TOPICS):
            body = f"{text.format(p=product)}. Reference code {code(p, t)}. Ask us about it."
            found[f"{product}-{topic}"] = body
    return found


def code(product: int, topic: int) -> str:
    """An identifier that stands in one document."""
    return f"ERR-{4000 + product * 100 + topic * 7}"


def questions() -> list[Question]:
    """Three for each document."""
    found: list[Question] = []
    for p, product in enumerate(PRODUCTS):
        for t, (topic, text, asked) in enumerate(TOPICS):
            source = f"{product}-{topic}"
            found += [
                Question("identifier", f"what does {code(p, t)} mean", source),
                Question("paraphrase", asked.format(p=product), source),
                Question("wording", text.format(p=product), source),
            ]
    return found


class MeaningEmbedder(HashingEmbedder):
    """Knows synonyms, and does not see numbers: as models of meaning are, in small."""

    @property
    def key(self) -> str:
        """Its own name."""
        return f"meaning:{self.dimensions}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        return await super().embed([_meaning(text) for text in texts])


_CONCEPTS = {word: key for key, words in SYNONYMS.items() for word in (key, *words.split())}
_COMMON = "a an the of for is in my i it do not to we us about ask what does mean"
_NOISE = frozenset(_COMMON.split())


def _meaning(text: str) -> str:
    words = "".join(char if char.isalpha() else " " for char in text.lower()).split()
    return " ".join(_CONCEPTS.get(word, word) for word in words if word not in _NOISE)
