"""Every piece of Python that the README and the docs show is a file, and every such file runs.

A comment ``<!-- file: examples/quickstart.py -->`` (or ``….py:section``) before a fence names the
file whose text the fence repeats, so that a page reads anywhere. ``scripts/pages.py`` writes them.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import os
import pkgutil
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent, indent
from types import SimpleNamespace
from typing import get_args

import pytest
import yaml
from markdown_it import MarkdownIt
from typer.testing import CliRunner

import agentkit_py
from agentkit_py._engine.parts import Part
from agentkit_py.cli.app import app as command_line
from agentkit_py.events.chunks import EventName

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
PROGRAMS = sorted(
    [
        *ROOT.glob("examples/*.py"),
        *ROOT.glob("examples/*/main.py"),
        *ROOT.glob("examples/processors/*.py"),
        *ROOT.glob("examples/porting/*.py"),
        *ROOT.glob("examples/coming_from/*.py"),
        *ROOT.glob("examples/recipes/*.py"),
    ]
)
SECONDS = 300
"""The time limit of one example."""

FENCE = re.compile(
    r"(?:^[ \t]*<!-- file: (?P<file>\S+) -->[ \t]*\n(?:[ \t]*\n)?)?"
    r"^(?P<indent>[ \t]*)(?P<ticks>```+|~~~+)[ \t]*(?:\{\.?)?(?:python3?|py|pycon)\b[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)(?P=ticks)[ \t]*$",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True)
class Fence:
    """A piece of Python on a page."""

    page: str
    line: int
    code: str
    file: str | None
    """The file named by the comment before it."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(path: Path) -> list[Fence]:
    """The Python fences of a page, in order."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    page = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    return [
        Fence(page, text.count("\n", 0, m.start("ticks")) + 1, dedent(m["code"]), m["file"])
        for m in FENCE.finditer(text)
    ]


def is_run(path: Path) -> bool:
    """Return whether the file is a program below, or a module next to one."""
    return path in PROGRAMS or path.parent / "main.py" in PROGRAMS


@pytest.mark.parametrize("fence", [f for p in (README, *PAGES) for f in fences(p)], ids=str)
def test_pages_show_files_that_run(fence: Fence) -> None:
    """Code of other frameworks cannot run here; its ending says so."""
    assert fence.file is not None, "put <!-- file: examples/….py --> before the fence"
    path = ROOT / fence.file.partition(":")[0]
    assert path.is_file()
    assert is_run(path) or path.suffix == ".theirs", (
        f"no test runs {path.name}: only examples are run"
    )


def test_pages_show_the_text_of_their_files() -> None:
    """Byte for byte."""
    done = subprocess.run(
        [sys.executable, "scripts/pages.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_example_is_written_into_the_page(tmp_path: Path) -> None:
    """A section is named by its marks, which are not shown; what it needs is imported before it."""
    (tmp_path / "scripts").mkdir()
    for name in ("pages.py", "tables.py"):
        text = (ROOT / "scripts" / name).read_text(encoding="utf-8")
        (tmp_path / "scripts" / name).write_text(text, encoding="utf-8")
    (tmp_path / "a.py").write_text("x = 0\n# --8<-- [start:one]\nx = 1\n# --8<-- [end:one]\n")
    page = tmp_path / "README.md"
    page.write_text("- Item:\n\n  <!-- file: a.py:one -->\n  ```python\n  old\n  ```\nEnd.\n")
    command = [sys.executable, str(tmp_path / "scripts" / "pages.py")]
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 1
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert page.read_text() == (
        "- Item:\n\n  <!-- file: a.py:one -->\n  ```python\n  x = 1\n  ```\nEnd.\n"
    )
    (tmp_path / "a.py").write_text(
        "import re\nfrom a import b, c\n"
        "# --8<-- [start:one]\nawait b(re)\n# --8<-- [end:one]\n"
        "# --8<-- [start:two]\ndef d():\n    return c(b)\n# --8<-- [end:two]\n"
        "# --8<-- [start:own]\nb = 1\nprint(b)\n# --8<-- [end:own]\n"
    )
    fence = "<!-- file: a.py:{} -->\n```python\n{}```\n"
    page.write_text(fence.format("one", "") + fence.format("two", ""))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    one = "import re\nfrom a import b\n\nawait b(re)\n"
    two = "from a import c\n\n\ndef d():\n    return c(b)\n"
    assert page.read_text() == fence.format("one", one) + fence.format("two", two), "each once"
    page.write_text(fence.format("own", ""))
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert page.read_text() == fence.format("own", "b = 1\nprint(b)\n"), "the page makes its own b"
    page.write_text("<!-- file: a.py:three -->\n```python\n```\n")
    wrong = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "README.md: a.py has no section 'three'" in wrong.stderr


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *PAGES], ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    """Those of the site are checked when it is built; these are what GitHub shows."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text)
    links += re.findall(r'\b(?:src|srcset)="([^"]+)"', text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("folder", ["guides", "processors", "recipes"])
def test_each_page_is_found_from_the_navigation_and_guides_from_their_index(folder: str) -> None:
    """A page that no list names is read by nobody."""
    pages = {page.name for page in (ROOT / "docs" / folder).glob("*.md")}
    assert len(pages) > 5
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    unlisted = {page for page in pages if f" {folder}/{page}\n" not in navigation}
    assert unlisted <= {"index.md"}, "name them under nav in mkdocs.yml"
    if "index.md" in pages:
        index = (ROOT / "docs" / folder / "index.md").read_text(encoding="utf-8")
        unlisted = {page for page in pages if f"({page})" not in index}
        assert unlisted == {"index.md"}, f"name them in docs/{folder}/index.md"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *PAGES], ids=lambda page: page.name)
def test_a_page_shows_its_code_where_only_github_s_rules_render_it(page: Path) -> None:
    """No page has the generator's syntax, except for docstrings, or a row outside of its table."""
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))
    shown = [t.content for t in tokens if t.type == "fence" and t.info.split(" ")[0] == "python"]
    assert shown == [fence.code for fence in fences(page)]
    texts = "\n".join(t.content for t in tokens if t.type == "inline")
    assert re.findall(r"^(?:!!!|\?\?\?|=== |.*--8<--|\|.*\|$).*", texts, re.MULTILINE) == []
    has_entries = re.search(r"^:::", texts, re.MULTILINE) is not None
    assert not has_entries or page.parent.name == "reference"
    assert [t.content for t in tokens if t.type == "code_block"] == []


def test_the_navigation_has_at_most_seven_groups() -> None:
    """More than that nobody reads in ten seconds."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    navigation = text.partition("\nnav:\n")[2].partition("\n\n")[0]
    groups = re.findall(r"^  - (\w[\w ]*):$", navigation, re.MULTILINE)
    assert (groups[0], groups[-1]) == ("Start", "About")
    assert len(groups) <= 7


def test_the_reference_has_each_exported_name_and_no_other() -> None:
    """As Python finds them when it imports every public package."""
    page = (ROOT / "docs" / "reference" / "names.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", page, re.MULTILINE)
    assert f"\n{len(rows)} names.\n" in page
    listed = {(name, id(getattr(importlib.import_module(module), name))) for name, module in rows}
    exported: set[tuple[str, int]] = set()
    for info in [None, *pkgutil.iter_modules(agentkit_py.__path__, "agentkit_py.")]:
        if info is None or not info.name.partition(".")[2].startswith("_"):
            module = importlib.import_module(info.name if info else "agentkit_py")
            names: list[str] = getattr(module, "__all__", [])
            exported |= {(name, id(getattr(module, name))) for name in names}
    assert len(exported) == len(rows)
    assert exported == listed


FIELD_WORDS = (
    *("structured output", "human in the loop", "handoff", "guardrails"),
    *("fallback", "memory", "streaming", "multi-tenant", "notebooks", "tool progress"),
    *("stopped replies", "remember conversations"),
)
"""What people who know other frameworks search for."""


@pytest.mark.parametrize("words", FIELD_WORDS)
def test_the_search_puts_the_recipe_of_the_fields_words_first(words: str) -> None:
    """A page of its own has them as title, and the site's search weighs it above guides."""
    name = f"recipes/{words.replace(' ', '-')}.md"
    assert (
        (ROOT / "docs" / name).read_text(encoding="utf-8").startswith(f"# {words.capitalize()}\n")
    )
    hook = runpy.run_path(str(ROOT / "scripts" / "docs_reference.py"))["on_page_markdown"]
    recipe, guide = (
        SimpleNamespace(file=SimpleNamespace(src_uri=uri), meta={})
        for uri in (name, "guides/memory.md")
    )
    hook("# A page", page=recipe)
    hook("# A page", page=guide)
    assert (recipe.meta, guide.meta) == ({"search": {"boost": 3}}, {})


def test_porting_shows_each_typescript_program_with_its_python_twin() -> None:
    """Each pair is on the page."""
    page = (ROOT / "docs" / "porting.md").read_text(encoding="utf-8")
    folder = ROOT / "examples" / "porting"
    names = sorted(path.stem for path in folder.glob("*.py"))
    assert len(names) >= 10
    assert names == sorted(path.stem for path in folder.glob("*.ts"))
    for name in names:
        original = page.index(f"<!-- file: examples/porting/{name}.ts -->\n```ts\n")
        twin = page.index(f"<!-- file: examples/porting/{name}.py:twin -->\n```python\n")
        assert page.count("<!-- file:", original, twin) == 1, name


def test_the_front_page_has_a_real_models_line_and_shows_the_messages_of_each_agent(
    tmp_path: Path,
) -> None:
    """In at most 25 lines; only the model's line is another one here."""
    text = (ROOT / "examples" / "front_page.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 25
    line = 'default_model="openai:gpt-4.1",'
    assert text.count(line) == 1
    program = tmp_path / "front_page.py"
    program.write_text(
        "from agentkit_py.testing import ScriptedModel, tool_call\n\n"
        + text.replace(
            line,
            "default_model=ScriptedModel("
            'tool_call("get_invoice", {"number": 7}), "Open.", "Bye."),',
        )
    )
    done = run_program(program, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "billing: Open." in done.stdout
    assert "concierge was sent 3 messages" in done.stdout


def test_the_readme_shows_code_and_there_are_examples() -> None:
    """The checks here have something to check."""
    assert fences(README)
    assert PROGRAMS


def test_fences_are_found_however_they_are_written(tmp_path: Path) -> None:
    """The measure itself."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- file: examples/a.py -->\n\n```python\none\n```\n\n"
        '=== "Tab"\n\n    ```py title="x.py"\n    two\n    ```\n\n'
        '~~~ {.python hl_lines="1"}\nthree\n~~~\n'
        "```sh\nnot this\n```\n"
    )
    assert [(f.line, f.code, f.file) for f in fences(page)] == [
        (3, "one\n", "examples/a.py"),
        (9, "two\n", None),
        (13, "three\n", None),
    ]


GUIDES = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]*[\w-]\.(?:py|md|toml|txt|yml)|(?:[\w.-]+/)+[\w.-]+/?")
NAME = re.compile(r"agentkit_py(?:\.\w+)+|(?:[A-Z][a-z]+){2,}|[a-z]+_[a-z_]+")


def mentions(page: Path, pattern: re.Pattern[str]) -> list[str]:
    """The pieces of inline code of a page that have a form, and words of its glossary."""
    text = page.read_text(encoding="utf-8")
    glossary = [
        word for row in re.findall(r"^\| ([\w, ]+?) \|", text, re.M) for word in row.split(", ")
    ]
    return sorted({piece for piece in [*CODE.findall(text), *glossary] if pattern.fullmatch(piece)})


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_path_that_a_guide_mentions_exists(page: Path) -> None:
    """A reader opens it next."""
    paths = mentions(page, FILE)
    assert len(paths) > 5
    assert [name for name in paths if not (ROOT / name).exists()] == []


@cache
def defined_names() -> frozenset[str]:
    """Return the names that the package defines: classes, functions, and what is assigned."""
    files = (ROOT / "agentkit_py").rglob("*.py")
    source = "\n".join(file.read_text(encoding="utf-8") for file in files)
    found = re.findall(r"(?:class|def) (\w+)", source) + re.findall(r"^ *(\w+)\b.*=", source, re.M)
    return frozenset(found)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_every_name_that_a_guide_mentions_is_in_the_package(page: Path) -> None:
    """Classes and functions are defined there, dotted names can be imported."""
    missing: list[str] = []
    for name in mentions(page, NAME):
        last = name.rpartition(".")[2]
        is_module = (ROOT / name.replace(".", "/")).is_dir()
        is_module |= (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()
        if hasattr(builtins, name) or is_module:
            continue
        if last not in defined_names():
            missing.append(name)
    assert missing == []


def test_the_moments_of_a_part_are_those_that_it_can_override() -> None:
    """ARCHITECTURE.md says when each method of a part is called."""
    text = GUIDES[0].read_text(encoding="utf-8")
    section = text.partition("### A concern of a turn")[2].partition("###")[0]
    cells = re.findall(r"^ *\| (`.+?`) \|", section, re.M)
    named = {name for cell in cells for name in CODE.findall(cell)}
    assert named == {name for name in vars(Part) if not name.startswith("_")} - {"run", "turn"}


OTHERS = frozenset(
    {
        "ContentFilterError",
        "DeferredToolRequests",
        "FallbackConfig",
        "GuardrailFunctionOutput",
        "HttpAgent",
        "ModelAPIError",
        "OutputTokenLimitExceeded",
        "RECOMMENDED_PROMPT_PREFIX",
        "REQUEST_ID",
        "RemoteA2aAgent",
        "RunConfig",
        "SSL_CERT_FILE",
        "StructuredDict",
        "TextOutput",
        "ToolCallLimitMiddleware",
        "ToolGuardrailFunctionOutput",
        "UnexpectedModelBehavior",
        "UsageLimits",
        "abortRun",
        "approveToolCall",
        "cost_limit",
        "count_tokens_before_request",
        "denyToolCall",
        "fallback_models",
        "fallback_on",
        "fetchHistory",
        "forwardedProps",
        "get_stream_writer",
        "input_filter",
        "input_guardrail_results",
        "max_turns",
        "my_function",
        "nest_handoff_history",
        "onData",
        "onEvent",
        "on_context_overflow",
        "on_error",
        "on_rate_limit",
        "output_info",
        "parse_docstring",
        "partial_output",
        "per_request_input_tokens_limit",
        "replaceThreadMessages",
        "request_limit",
        "resumeStream",
        "runAgent",
        "run_limit",
        "sendMessage",
        "stream_mode",
        "to_a2a",
        "tool_calls_limit",
        "tool_description_override",
        "tool_name_override",
        "tripwire_triggered",
    }
)
"""Names of other programs that guides mention."""

PIECES = ("_", "final_result_", "summary_", "agentkit_py_", "INNGEST_")
"""Beginnings of names that the package puts together, and of the SDK's own."""


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p.parent.name in ("guides", "processors", "recipes")],
    ids=lambda page: page.name,
)
def test_every_name_in_a_guide_is_somewhere_in_the_code(page: Path) -> None:
    """A name that was changed in the code and not on the page sends a reader nowhere."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    said = {word for code in CODE.findall(text) for word in re.findall(r"[A-Za-z_]\w+", code)}
    names = {word for word in said if re.search(r"[a-z][A-Z]|\w_\w", word)} - OTHERS
    assert {n for n in names - known_words() if not n.startswith(PIECES)} == set()


@cache
def known_words() -> frozenset[str]:
    """Return every word of the code, and the names of its files."""
    paths = [
        path
        for folder in ("agentkit_py", "examples", "tests", "scripts")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".ts", ".tsx") and path != Path(__file__)
        if "node_modules" not in path.parts
    ]
    texts = (path.read_text(encoding="utf-8") for path in paths)
    return frozenset(word for text in texts for word in re.findall(r"\w+", text)).union(
        path.stem for path in paths
    )


def offline() -> dict[str, str]:
    """This environment without keys, and with every way out of this machine closed."""
    providers = ("_API_KEY", "_ENDPOINT", "_BASE_URL")
    kept = {k: v for k, v in os.environ.items() if not k.endswith(providers)}
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    proxies |= {name.lower(): value for name, value in proxies.items()}
    local = "127.0.0.1,localhost"
    return {**kept, **proxies, "NO_PROXY": local, "no_proxy": local}


def run_program(
    program: Path, folder: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Start a program as a user would, in a folder of its own."""
    return subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        env=offline() if environment is None else dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    "program",
    [p for p in PROGRAMS if p.name != "front_page.py"],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_every_example_runs_without_network_and_keys(program: Path, tmp_path: Path) -> None:
    """The front page's asks a real model; it has a test of its own."""
    done = run_program(program, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    without_counts = re.sub(r"\d+", "n", done.stdout)  # tokens are estimated without tiktoken
    for page in PAGES:
        for shown in outputs_of(program, page):
            assert re.sub(r"\d+", "n", shown) in without_counts, page.name


def test_the_tutorials_figures_are_those_of_a_machine_with_and_without_tiktokens_table(
    tmp_path: Path,
) -> None:
    """The page shows the output with it, and says which numbers differ without."""
    program, page = ROOT / "examples" / "tutorial.py", ROOT / "docs" / "tutorial.md"
    (shown,) = outputs_of(program, page)
    environment = {**offline(), "TIKTOKEN_CACHE_DIR": str(tmp_path)}
    without = run_program(program, tmp_path, environment).stdout
    found = re.search(r"prints ([\d, and]+) in place of ([\d, and]+)\.", page.read_text("utf-8"))
    assert found is not None
    approximate, exact = (re.findall(r"\d+", numbers) for numbers in found.groups())
    for other, number in zip(approximate, exact, strict=True):
        assert shown != (shown := re.sub(rf"\b{number}\b", other, shown)), number
    assert shown in without


def test_the_testing_reference_begins_with_the_scripted_model_and_has_every_name() -> None:
    """The order of the page is by use; a name that is added needs its place."""
    page = (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")
    names = re.findall(r"^        - (\w+)$", page, re.MULTILINE)
    assert names[0] == "ScriptedModel"
    assert sorted(names) == sorted(importlib.import_module("agentkit_py.testing").__all__)


def test_the_reference_has_every_option_of_every_command() -> None:
    """As `--help` prints them; the modules of most commands are loaded when they are called."""
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## `(agentkit [\w -]+)`\n(.*?)(?=^## |\Z)", page, re.M | re.S))
    assert len(sections) > 25
    for path, section in sections.items():
        shown = CliRunner().invoke(
            command_line, [*path.split()[1:], "--help"], env={"COLUMNS": "250", "NO_COLOR": "1"}
        )
        options = set(re.findall(r"(?<=[\s/])--[a-z][a-z-]+", shown.output)) - {"--help"}
        assert {option for option in options if f"`{option}`" not in section} == set(), path
        assert "| --- |\n| `" in section, path


def test_the_reference_has_every_chunk() -> None:
    """All that a run publishes; what is only declared is named."""
    page = (ROOT / "docs" / "reference" / "chunks.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^## `([\w.]+)`$", page, re.M))
    declared = {"step.started", "step.completed", "step.failed", "error"}
    assert shown | declared == set(get_args(EventName))
    assert all(f"`{name}`" in page for name in declared)


def outputs_of(program: Path, page: Path) -> list[str]:
    """Return the output that a page shows of a program."""
    name = re.escape(program.relative_to(ROOT).as_posix())
    return re.findall(
        rf"<!-- output: {name} -->\n```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/*.theirs")), ids=lambda p: p.name)
def test_programs_of_other_frameworks_are_python(path: Path) -> None:
    """At least that much can be said of them without installing them."""
    compile(path.read_text(encoding="utf-8"), path.name, "exec")


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")))
def test_issue_forms_have_fields_that_github_knows(form: Path) -> None:
    """A comma in a text without quotes made another field of its rest, and no form."""
    known = {"label", "description", "placeholder", "value", "render", "options", "multiple"}
    fields = yaml.safe_load(form.read_text(encoding="utf-8"))["body"]
    assert all(set(one["attributes"]) <= known for one in fields)


def test_names_of_the_porting_page_are_where_it_says() -> None:
    """A porter copies the second column into an import."""
    page = (ROOT / "docs" / "porting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*) \| `(agentkit_py[\w.]*)` \|$", page, re.MULTILINE)
    assert len(rows) > 5
    for what, module in rows:
        found = importlib.import_module(module)
        names = set(re.findall(r"`(\w+)`", what)) - {"createServer"}
        assert [name for name in sorted(names) if not hasattr(found, name)] == []


FRAGMENTS = {"ag-ui", "approvals", "deploys", "durable", "server", "staff", "vercel-ai-sdk"}
"""Pages that show parts of an application, which is whole in `examples/`."""


@pytest.mark.parametrize(
    "page", [README, *(page for page in PAGES if page.stem not in FRAGMENTS)], ids=lambda p: p.stem
)
def test_names_that_a_pages_programs_use_are_on_the_page(page: Path) -> None:
    """A reader who copies them gets no NameError."""
    known, used = {*dir(builtins), "__file__"}, set[str]()
    ours = [one.code for one in fences(page) if not (one.file or "").endswith(".theirs")]
    for code in ours:
        try:
            nodes = ast.walk(ast.parse(code))
        except SyntaxError:  # the inside of an async function
            nodes = ast.walk(ast.parse("async def inside():\n" + indent(code, " ")))
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Load()):
                    used.add(name)
                case ast.Name(id=name) | ast.arg(arg=name) | ast.alias(asname=str(name)):
                    known.add(name)
                case ast.alias(name=name):
                    known.add(name.partition(".")[0])
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    known.add(node.name)
                case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                    known.add(name)
                case _:
                    pass
    assert sorted(used - known) == []
