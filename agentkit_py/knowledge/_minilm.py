"""The forward pass of a small BERT sentence encoder in numpy. Everything here blocks.

Not torch: its wheels for Linux bring CUDA, several gigabytes for a model of 90 megabytes. What the
layers do is in Devlin et al., "BERT" (2018), section 3; pooling and lengths are those that the
model's folder states.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import numpy as _safetensors
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs] - it has none
from tokenizers import Encoding, Tokenizer

from agentkit_py.errors import KnowledgeError

Numbers: TypeAlias = NDArray[np.float32]

_BATCH = 8
"""Texts at once: more take more memory, and no less time on a CPU."""

_ALONE = Lock()
"""One batch at a time in a process: how many threads BLAS has is a setting of the process."""

_NOWHERE = np.float32(-1e9)
"""Added to the attention that nobody pays to padding."""


class Encoder:
    """A model in a folder: ``config.json``, ``tokenizer.json`` and ``model.safetensors``."""

    def __init__(self, folder: Path) -> None:
        """Load it.

        Raises:
            KnowledgeError: It is not there, or of a kind that this program does not know.
        """
        try:
            config = _checked(folder, json.loads((folder / "config.json").read_text("utf-8")))
            self._heads: int = config["num_attention_heads"]
            self._layers: int = config["num_hidden_layers"]
            self._epsilon = np.float32(config["layer_norm_eps"])
            self._tokenizer = _tokenizer(folder, config)
            self._weights = _read(folder / "model.safetensors")
            self._forward([[0, 1]])  # whatever is missing is missed here
        except KnowledgeError:
            raise
        except Exception as error:  # what tokenizers raises has no class of its own
            problem = f"{type(error).__name__}: {error}"
            raise KnowledgeError(f"{folder} holds no model that can be read: {problem}") from error

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each text, in order; what is too long is cut off."""
        plain = [text.encode("utf-8", "replace").decode() for text in texts]
        encoded: list[Encoding] = self._tokenizer.encode_batch(plain)
        found: list[list[float]] = [[]] * len(texts)
        # Texts of one length side by side: padding costs as much as text.
        order = sorted(range(len(texts)), key=lambda index: len(encoded[index].ids))
        for start in range(0, len(order), _BATCH):
            places = order[start : start + _BATCH]
            # These matrices are small: the threads of BLAS would wait for each other, ten times as
            # long as they compute where another process needs the CPU, too.
            with _ALONE, threadpool_limits(1, "blas"):
                vectors = self._forward([encoded[place].ids for place in places])
            for place, vector in zip(places, vectors.tolist(), strict=True):
                found[place] = vector
        return found

    def _forward(self, ids: Sequence[Sequence[int]]) -> Numbers:
        longest = max(map(len, ids))
        tokens = np.zeros((len(ids), longest), dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.float32)
        for row, one in enumerate(ids):
            tokens[row, : len(one)] = one
            mask[row, : len(one)] = 1
        words = self._weights["embeddings.word_embeddings.weight"][tokens]
        places = self._weights["embeddings.position_embeddings.weight"][:longest]
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        hidden = self._normed(words + places + kind, "embeddings.LayerNorm")
        unseen: Numbers = (1 - mask)[:, None, None, :] * _NOWHERE
        for number in range(self._layers):
            hidden = self._layer(hidden, unseen, f"encoder.layer.{number}.")
        pooled = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def _layer(self, hidden: Numbers, unseen: Numbers, name: str) -> Numbers:
        seen = self._attention(hidden, unseen, f"{name}attention.self.")
        seen = self._linear(seen, f"{name}attention.output.dense")
        hidden = self._normed(hidden + seen, f"{name}attention.output.LayerNorm")
        wide = _gelu(self._linear(hidden, f"{name}intermediate.dense"))
        return self._normed(
            hidden + self._linear(wide, f"{name}output.dense"), f"{name}output.LayerNorm"
        )

    def _attention(self, hidden: Numbers, unseen: Numbers, name: str) -> Numbers:
        texts, length, size = hidden.shape
        each = size // self._heads

        def split(part: str) -> Numbers:
            given = self._linear(hidden, f"{name}{part}")
            return given.reshape(texts, length, self._heads, each).transpose(0, 2, 1, 3)

        scores = split("query") @ split("key").transpose(0, 1, 3, 2)
        scores = scores / np.float32(each**0.5) + unseen
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        return (scores @ split("value")).transpose(0, 2, 1, 3).reshape(texts, length, size)

    def _linear(self, given: Numbers, name: str) -> Numbers:
        rows = given.reshape(-1, given.shape[-1]) @ self._weights[f"{name}.weight"].T
        rows += self._weights[f"{name}.bias"]
        return rows.reshape(*given.shape[:-1], -1)

    def _normed(self, given: Numbers, name: str) -> Numbers:
        given = given - given.mean(axis=-1, keepdims=True)
        given /= np.sqrt((given * given).mean(axis=-1, keepdims=True) + self._epsilon)
        return given * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(given: Numbers) -> Numbers:
    """``x · Φ(x)`` with the error function of Abramowitz and Stegun, 7.1.26 (error below 2e-7)."""
    size = np.abs(given) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(factor)
    error = np.copysign(1 - series * t * np.exp(-size * size), given)
    return (given * (1 + error) / 2).astype(np.float32, copy=False)


def _checked(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    pooling = json.loads((folder / "1_Pooling" / "config.json").read_text("utf-8"))
    expected = {
        "model_type": "bert",
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "pooling_mode_mean_tokens": True,
    }
    for name, wanted in expected.items():
        found = {"position_embedding_type": "absolute", **config, **pooling}.get(name)
        if found != wanted:
            raise KnowledgeError(f"{folder}: {name} is {found!r}, and only {wanted!r} is known")
    return config


def _tokenizer(folder: Path, config: dict[str, Any]) -> Tokenizer:
    settings = folder / "sentence_bert_config.json"
    most = config["max_position_embeddings"]
    if settings.exists():
        most = json.loads(settings.read_text("utf-8")).get("max_seq_length") or most
    made: Any = Tokenizer.from_str((folder / "tokenizer.json").read_text("utf-8"))
    made.enable_truncation(most)
    made.no_padding()
    return made


def _read(path: Path) -> dict[str, Numbers]:
    untyped: Any = _safetensors
    found: dict[str, Any] = untyped.load_file(path)
    return {
        name.removeprefix("bert."): value.astype(np.float32, copy=False)
        for name, value in found.items()
    }
