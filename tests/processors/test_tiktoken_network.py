"""Tiktoken without network, refused and black-holed alike: nothing hangs, counts are estimates."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

O200K = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""Name of o200k_base's file in tiktoken's cache."""

# The estimate of 18 characters at 4.2 characters per token.
TEXT, ESTIMATE = "hello tokens there", 5

SCRIPT = f"""
import asyncio, json, time
from agentkit_py.messages import TextMessage
from agentkit_py.processors import TokenLimiter, apply_processors, default_tokenizer

start = time.monotonic()
left = asyncio.run(apply_processors([TextMessage("user", "{TEXT}")], [TokenLimiter({ESTIMATE})]))
first = time.monotonic() - start
start = time.monotonic()
tokenizer = default_tokenizer()
counts = [tokenizer.count("{TEXT}"), default_tokenizer("cl100k_base").count("{TEXT}")]
print(json.dumps({{"key": tokenizer.key, "counts": counts, "left": len(left), "first": first,
                  "later": time.monotonic() - start}}))
"""


def count_in_new_process(cache: Path, **environment: str) -> tuple[dict[str, Any], list[str]]:
    """Return the counts of a new process, and the lines that it wrote to stderr."""
    ours = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "NO_PROXY", "no_proxy")
    inherited = {k: v for k, v in os.environ.items() if k not in ours}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**inherited, "TIKTOKEN_CACHE_DIR": str(cache), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return json.loads(done.stdout), done.stderr.splitlines()


@pytest.fixture
def refused() -> str:
    """The address of a proxy that is not there."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def black_hole() -> Iterator[str]:
    """The address of a proxy that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in held:
            connection.close()


def proxied(address: str) -> dict[str, str]:
    """Environment that sends every request through ``address``."""
    return dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), address)


def test_a_refused_network_gives_estimates_and_one_warning_per_encoding(
    refused: str, tmp_path: Path
) -> None:
    """The second encoding is not even asked for."""
    counted, lines = count_in_new_process(tmp_path, **proxied(refused))
    assert counted["key"] == "approximate:o200k_base"
    assert counted["counts"] == [ESTIMATE, ESTIMATE]
    assert counted["left"] == 1
    assert [line.split("'")[1] for line in lines] == ["o200k_base", "cl100k_base"]


def test_a_network_that_never_answers_is_waited_for_once_and_not_longer_than_set(
    black_hole: str, tmp_path: Path
) -> None:
    """Tiktoken's own download would wait for ever, and hold a lock meanwhile."""
    counted, lines = count_in_new_process(
        tmp_path, AGENTKIT_TIKTOKEN_TIMEOUT="0.5", **proxied(black_hole)
    )
    assert counted["counts"] == [ESTIMATE, ESTIMATE]
    assert 0.5 <= counted["first"] < 20
    assert counted["later"] < 0.4
    assert "no answer within 0.5 s" in lines[0]
    assert len(lines) == 2


def test_a_time_out_of_zero_downloads_nothing(black_hole: str, tmp_path: Path) -> None:
    """Zero is for machines that must not open connections."""
    counted, lines = count_in_new_process(
        tmp_path, AGENTKIT_TIKTOKEN_TIMEOUT="0", **proxied(black_hole)
    )
    assert counted["counts"] == [ESTIMATE, ESTIMATE]
    assert "AGENTKIT_TIKTOKEN_TIMEOUT is 0" in lines[0]


@pytest.mark.parametrize("seconds", ["soon", "nan", ""])
def test_a_time_out_that_is_no_number_counts_as_not_set(
    seconds: str, refused: str, tmp_path: Path
) -> None:
    """A typing error in the environment must not stop a run."""
    counted, _ = count_in_new_process(
        tmp_path, AGENTKIT_TIKTOKEN_TIMEOUT=seconds, **proxied(refused)
    )
    assert counted["counts"] == [ESTIMATE, ESTIMATE]


def test_a_switched_off_cache_is_treated_like_an_empty_one(refused: str) -> None:
    """An empty TIKTOKEN_CACHE_DIR tells tiktoken to keep nothing."""
    counted, _ = count_in_new_process(Path(), TIKTOKEN_CACHE_DIR="", **proxied(refused))
    assert counted["key"] == "approximate:o200k_base"


def test_the_other_variable_and_the_temporary_folder_are_read_as_tiktoken_does(
    refused: str, tmp_path: Path, real_tiktoken: Path
) -> None:
    """Both find an encoding in the same places."""
    shutil.copytree(real_tiktoken, tmp_path / "data-gym-cache")
    script = SCRIPT.replace("default_tokenizer()", "default_tokenizer('o200k_base')")
    for variables in (
        {"DATA_GYM_CACHE_DIR": str(tmp_path / "data-gym-cache")},
        {"TMPDIR": str(tmp_path)},
    ):
        environment = {k: v for k, v in os.environ.items() if k != "TIKTOKEN_CACHE_DIR"}
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**environment, **variables, **proxied(refused)},
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        assert json.loads(done.stdout)["key"] == "tiktoken:o200k_base"


def test_a_full_cache_needs_no_network(
    black_hole: str, real_tiktoken: Path, tmp_path: Path
) -> None:
    """The time-out does not apply to files: a slow disk is no missing network."""
    counted, lines = count_in_new_process(
        real_tiktoken, AGENTKIT_TIKTOKEN_TIMEOUT="0", **proxied(black_hole)
    )
    assert counted["key"] == "tiktoken:o200k_base"
    assert counted["counts"] == [3, 3]
    assert lines == []


def test_a_damaged_cache_file_is_no_reason_to_hang(
    black_hole: str, real_tiktoken: Path, tmp_path: Path
) -> None:
    """Tiktoken would delete it and fetch it again."""
    (tmp_path / O200K).write_bytes((real_tiktoken / O200K).read_bytes()[:-1])
    counted, _ = count_in_new_process(
        tmp_path, AGENTKIT_TIKTOKEN_TIMEOUT="0.2", **proxied(black_hole)
    )
    assert counted["key"] == "approximate:o200k_base"


PLUGIN = """
def one_byte_each():
    return {"name": "bytes", "pat_str": "(?s:.)", "special_tokens": {},
            "mergeable_ranks": {bytes([n]): n for n in range(256)}}

def broken():
    raise RuntimeError("disk on fire")

ENCODING_CONSTRUCTORS = {"bytes": one_byte_each, "broken": broken}
"""


def test_encodings_of_tiktoken_plugins_are_found_and_broken_ones_estimated(tmp_path: Path) -> None:
    """They are modules in tiktoken's namespace package ``tiktoken_ext``."""
    plugin = tmp_path / "tiktoken_ext" / "plugin.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    script = (
        "from agentkit_py.processors import default_tokenizer\n"
        "for name in ('bytes', 'broken'):\n"
        "    print(default_tokenizer(name).key, default_tokenizer(name).count('12345678'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert done.stdout.splitlines() == ["tiktoken:bytes 8", "approximate:broken 2"]
    assert "RuntimeError" in done.stderr
