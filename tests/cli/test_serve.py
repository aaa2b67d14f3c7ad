"""`agentkit serve`: a module's agents and networks as Inngest functions, over HTTP."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import Result

from tests.cli.terminal import COMMAND, agentkit, environment

SHOP = """
import inngest
from agentkit_py import Agent, Network, openai
from agentkit_py.inngest import create_functions

model = openai("gpt-4.1", api_key="sk-test")
client = inngest.Inngest(app_id="x", is_production=False)
clerk = Agent(name="Clerk", system="You sell hats.", model=model)
shop = Network(name="Hat shop", agents=[clerk], router=lambda context: None)
pair = [shop, clerk]

def make():
    return pair

def mixed():
    return [shop, own[0]]

own = create_functions(client, agents=[clerk])
number = 3
"""

OWN = """
import inngest
from agentkit_py import Agent
from agentkit_py.inngest import create_functions

client = inngest.Inngest(app_id="hats")
functions = create_functions(client, agents=[Agent(name="clerk", system="S")])
clerk = Agent(name="other", system="S")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with modules, as a user has one."""
    (tmp_path / "hat_shop.py").write_text(SHOP)
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "alone.py").write_text(
        "from agentkit_py import Agent\na = Agent(name='a', system='S')\n"
    )
    (tmp_path / "two.py").write_text(
        "import inngest\na = inngest.Inngest(app_id='a')\nb = inngest.Inngest(app_id='b')\n"
        "functions = []\nfrom agentkit_py import Agent\nc = Agent(name='c', system='S')\n"
    )
    return tmp_path


INNGEST_WARNS = pytest.mark.filterwarnings("ignore:Support for class-based `config`")
"""inngest.fast_api defines its models in pydantic's old way."""


def serve(folder: Path, *arguments: str, **variables: str) -> Result:
    """A command that ends by itself."""
    return agentkit("serve", *arguments, folder=folder, variables=variables)


class Serving:
    """The command while it serves."""

    def __init__(self, folder: Path, *arguments: str, **variables: str) -> None:
        self.process = subprocess.Popen(
            [*COMMAND, "serve", *arguments, "--port", "0"],
            cwd=folder,
            env=environment(**variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.said)
        assert found is not None, self.said + self.process.stdout.read()
        self.url = found[0]
        self.about = httpx.get(
            self.url, trust_env=False, timeout=httpx.Timeout(None)
        )  # until it is up

    def stop(self) -> str:
        """Ctrl-C; gives the rest of what was said."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.stdout is not None
        # Not communicate(): it leaves out what reading the first line has buffered.
        rest = self.process.stdout.read()
        assert self.process.wait() == 0, rest
        return rest


Serve = Callable[..., Serving]


@pytest.fixture
def serving(folder: Path) -> Iterator[Serve]:
    """Starts the command; whatever still serves at the end is ended."""
    started: list[Serving] = []

    def start(*arguments: str, **variables: str) -> Serving:
        started.append(Serving(folder, *arguments, **variables))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_networks_are_served_where_it_says(serving: Serve) -> None:
    """Development mode prints the next commands; Ctrl-C ends it."""
    served = serving("hat_shop")
    found = served.about.json()
    rest = served.stop()
    assert found["function_count"] == 1
    assert found["mode"] == "dev"
    assert served.said.startswith("App 'x' at http://127.0.0.1:")
    assert served.url.endswith("/api/inngest")
    assert "  network-hat-shop  started by x/network-hat-shop\n" in rest
    assert f"inngest dev --no-discovery -u {served.url}\n" in rest


@pytest.mark.parametrize(
    ("target", "app", "functions"),
    [
        ("hat_shop:clerk", "x", ["agent-clerk"]),
        ("hat_shop:pair", "x", ["agent-clerk", "network-hat-shop"]),
        ("hat_shop:make", "x", ["agent-clerk", "network-hat-shop"]),
        ("hat_shop:own", "x", ["agent-clerk"]),
        ("alone", "alone", ["agent-a"]),
        ("own", "hats", ["agent-clerk"]),
        ("own:clerk", "hats", ["agent-other"]),
    ],
)
def test_functions_are_found_by_target(
    serving: Serve, target: str, app: str, functions: list[str]
) -> None:
    """The client is the module's, or a new one with the module's name."""
    served = serving(target)
    rest = served.stop()
    assert f"App '{app}'" in served.said
    assert re.findall(r"^  (\S+)  started by", rest, re.MULTILINE) == functions


def test_the_app_can_be_named_where_there_is_no_client(serving: Serve) -> None:
    """Options of the functions made for it are options of the command."""
    served = serving("alone", "--app-id", "hats", "--inference", "local", "--realtime")
    assert "hats/agent-a" in served.stop()
    assert "App 'hats'" in served.said


def test_with_a_signing_key_requests_must_be_signed(serving: Serve) -> None:
    """Production, as the SDK says; unsigned ones are refused."""
    key = "signkey-prod-" + "0" * 64
    served = serving("alone", INNGEST_SIGNING_KEY=key)
    answer = httpx.post(f"{served.url}?fnId=alone-agent-a&stepId=step", json={}, trust_env=False)
    rest = served.stop()
    assert answer.status_code in (401, 500)
    assert "Production mode" in rest
    assert "inngest dev" not in rest


@INNGEST_WARNS
@pytest.mark.parametrize(
    ("arguments", "variables", "sentence"),
    [
        (["hat_shop:number"], {}, "has nothing to serve"),
        (["json"], {}, "has nothing to serve: it takes an Inngest function"),
        (["hat_shop:nothing"], {}, "has no 'nothing'"),
        (["hat_shop.py"], {}, "is a file; name the module"),
        (["hat_shop:mixed"], {}, "serve either Inngest functions, or networks and agents"),
        (["hat_shop", "--app-id", "y"], {}, "whose app id is 'x'"),
        (["own", "--realtime"], {}, "--inference and --realtime do nothing here"),
        (["two:c"], {}, "several Inngest clients"),
        (["two"], {}, "has nothing to serve"),
        (["alone"], {"INNGEST_DEV": "0"}, "set INNGEST_SIGNING_KEY, or INNGEST_DEV=1"),
        (["alone", "--connect"], {"INNGEST_DEV": "0"}, "set INNGEST_SIGNING_KEY, or INNGEST_DEV=1"),
        (["alone", "--connect", "--port", "0"], {}, "leave out --host, --port"),
    ],
)
def test_an_unservable_target_is_refused_in_one_line(
    folder: Path, arguments: list[str], variables: dict[str, str], sentence: str
) -> None:
    """Exit status 2: the command was wrong."""
    done = serve(folder, *arguments, **variables)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


@INNGEST_WARNS
def test_a_used_port_is_refused_in_one_line(folder: Path) -> None:
    """The error comes before any address is printed."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = serve(folder, "alone", "--port", str(other.getsockname()[1]))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot be listened on" in done.stderr
