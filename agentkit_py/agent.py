"""Agents: a system prompt, tools and a model, and the loop that runs them."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import update_wrapper
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._engine.agent_loop import run_agent
from agentkit_py._engine.agent_run import AgentRun, TurnBody
from agentkit_py._engine.agent_spec import (
    AgentSpec,
    ModelChoice,
    ReplyStreaming,
    System,
    TurnOptions,
    with_instructions,
)
from agentkit_py._engine.agent_tools import AgentTools
from agentkit_py._engine.driver import RunPlan
from agentkit_py._engine.handoffs import Handoff, handoff_facts, handoff_map
from agentkit_py._engine.knowledge import (
    FilterPrecedence,
    KnowledgeBase,
    KnowledgeFilters,
    KnowledgeSearch,
)
from agentkit_py._engine.nested_runs import AsToolOptions, Nested, NestedCall, names_of
from agentkit_py._engine.option_checks import (
    expect,
    expect_bool,
    expect_callback,
    expect_context,
    expect_count,
    expect_function,
    expect_history,
    expect_list,
    expect_method,
    expect_model,
    expect_one_of,
    expect_text,
    expect_type,
    wrong,
)
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.run_context import RunContext, RunSetup
from agentkit_py._engine.run_options import RunOptions
from agentkit_py._engine.tool_limits import check_filters, check_tool_limits
from agentkit_py._engine.tool_sources import (
    AllowedTools,
    ToolSource,
    check_allowed,
    check_sources,
    may_have,
)
from agentkit_py.errors import ConfigurationError, MissingModelError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle.guardrails import (
    Guardrail,
    GuardrailSpec,
    InputGuardrail,
    OutputGuardrail,
)
from agentkit_py.lifecycle.hooks import NO_HOOKS, Lifecycle
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.models.base import HostedTool, ToolChoice, ToolSpec
from agentkit_py.models.provider_tools import is_run_by_program
from agentkit_py.output.types import EndStrategy, OutputSpec, OutputType, OutputValidator
from agentkit_py.processors.apply import as_processors
from agentkit_py.processors.base import HistoryProcessor, Processors, Tokenizer
from agentkit_py.processors.redaction import Redactor
from agentkit_py.processors.tokenizers import CustomTokenizer, as_tokenizer, default_tokenizer
from agentkit_py.results import AgentResult, AgentRunResult, OutputT
from agentkit_py.runs import MessageInput, Runnable, RunStream, Settings, is_same
from agentkit_py.state import StateT
from agentkit_py.tools.definition import Tool, ToolGuardrail, ToolLike, as_tool

P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")


@options_spelled_here
@spelled_here
@dataclass(eq=False, kw_only=True)
class Agent(AgentLike[OutputT], Runnable[Any], Generic[StateT, OutputT]):
    """An agent: its name, its abilities, and its view of the history.

    An agent is configuration: it holds nothing of a run, and may run in many at the same time. What
    is assigned or appended to it counts from the next run on.
    """

    name: str
    """Unique within a network; routers and histories call the agent by it."""

    system: System[StateT] | None = None
    """The system prompt, or a function of the context that gives it; not needed where there are
    ``instructions``."""

    instructions: str | Sequence[str] = ()
    """Instructions that come after the system prompt; several are a list there."""

    markdown: bool = False
    """Tell the model, at the end of the system prompt, to format its answers as markdown."""

    description: str = ""
    """The agent's purpose, as routing agents read it."""

    assistant: str = ""
    """The beginning of each answer (prefill)."""

    tools: Sequence[ToolLike] = ()
    """The tools it can call; bare functions are tools, too."""

    mcp_servers: Sequence[ToolSource] = ()
    """Servers whose tools it can call, too; see `agentkit_py.mcp.MCPServer`."""

    knowledge: KnowledgeBase | None = None
    """Documents that it can search, e.g. `agentkit_py.knowledge.Knowledge`."""

    search_knowledge: bool = True
    """Add the tool ``search_knowledge_base``; a tool of that name in ``tools`` replaces it."""

    knowledge_filters: KnowledgeFilters | None = None
    """Filters of every search, or functions of the state that return them."""

    enable_agentic_knowledge_filters: bool = False
    """Let the model narrow its searches with filters of its own."""

    filter_precedence: FilterPrecedence = "both"
    """``"user"``: where there are ``knowledge_filters``, the model's own are ignored."""

    tool_choice: ToolChoice = "auto"
    lifecycle: Lifecycle[StateT] = NO_HOOKS
    output_type: OutputType[OutputT] | None = None
    """The output of a run: a type, a function that is called with the model's answer, a list of
    these, or `ToolOutput`, `NativeOutput` or `PromptedOutput`; None: any text."""

    output_retries: int = 1
    """The number of times that the model may answer again where its answer does not fit."""

    output_validators: Sequence[Callable[..., Any]] = ()
    """Functions that check an output, or change it; see `output_validator`."""

    end_strategy: EndStrategy = "early"
    """``"early"``: tools that are called with a valid output are not run; ``"exhaustive"``: they
    are run."""

    handoffs: Sequence[AgentLike[Any] | Handoff[Any]] = ()
    """The agents that it may hand the conversation over to, in a network: agents, or `Handoff`s."""

    input_guardrails: Sequence[InputGuardrail[StateT] | Guardrail[Any] | Redactor] = ()
    """Checks of the user's message, once in a run, before its model is asked (or in parallel to
    the first call: `Guardrail`). A `Redactor` masks the message before it is stored or sent."""

    output_guardrails: Sequence[OutputGuardrail[StateT] | Guardrail[Any] | Redactor] = ()
    """Checks of each output, and of each text of an agent without ``output_type``, before
    it is shown; replies are then not streamed piece by piece."""

    tool_input_guardrails: Sequence[ToolGuardrail[StateT] | Guardrail[Any]] = ()
    """Checks of the calls of all tools, before a person is asked and anything is done."""

    tool_output_guardrails: Sequence[ToolGuardrail[StateT] | Guardrail[Any] | Redactor] = ()
    """Checks of the results of all tools, before they are shown."""

    state_type: type[StateT] | None = None
    """The type of its runs' state data; a run without given data begins with ``state_type()``."""

    model: ModelChoice = None
    """A model, its name (``"openai:gpt-4.1"``), or a function of the context that chooses a model
    for each turn (for pictures, for code, a cheap model); None: the model of the run or of the
    network.
    """

    allowed_tools: AllowedTools | None = None
    """Which of its tools are offered and may be called: names, or a function of the context that
    gives them before each inference; None: all."""

    history: HistoryConfig | None = None
    """Where its threads are kept when it runs by itself; its processors apply in networks too."""

    processors: Processors = ()
    """Processors of the history sent to this agent's model, or a function of the run's context that
    gives them; they run after the network's."""

    max_iter: int = 10
    """The maximum number of inferences in a turn, each with its tool calls; 0 and 1 both mean 1."""

    stream_before_response: bool = False
    """Stream replies before `on_response` has seen them; otherwise such an agent's text waits."""

    hosted_tools: Sequence[HostedTool] = ()
    """Tools that the provider runs, in addition to its own: ``["web_search"]``, or the provider's
    JSON."""

    keep_cut_replies: bool = True
    """Keep the shown part of a streamed reply that was stopped or broke off in the thread, marked
    as cut."""

    parallel_tools: bool = False
    """Run the calls of a reply in parallel, each on its own fork of the state."""

    repair_arguments: bool = True
    """Repair almost valid arguments of tools, where the schema allows a single reading; results say
    so in ``context.repaired``."""

    history_mode: HistoryMode = "chronological"
    """The order of prompt and history in a run by itself; networks have their own setting."""

    token_counter: CustomTokenizer | None = None
    """Counts tokens for reports and limits; None: tiktoken's o200k_base, or an estimate."""

    _opened: list[AsyncExitStack] = field(init=False, repr=False)
    _made: dict[str, tuple[object, Any]] = field(init=False, repr=False)
    """The cached output and handoffs, with their sources: schemas take longer
    than all else that a run resolves."""

    _resolved: tuple[list[object], AgentSpec] | None = field(init=False, repr=False)
    """The agent as last resolved, and the settings it was made from."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse methods that are named as hooks, which would not be called.

        Raises:
            TypeError: A method has the name of a hook.
        """
        super().__init_subclass__(**options)
        for hook in dataclasses.fields(Lifecycle):
            if hook.name in vars(cls):
                raise TypeError(
                    f"class {cls.__name__}: a method {hook.name!r} is not called; hooks are "
                    f"functions: lifecycle=Lifecycle({hook.name}=…)"
                )

    def __post_init__(self) -> None:
        """Validate the options."""
        if not isinstance(self.name, str) or not self.name:
            raise ConfigurationError(
                f"An agent's name must be a non-empty string, got {self.name!r}"
            )
        self._opened, self._made, self._resolved = [], {}, None
        if _FEATURES(vars(self)) == _NO_FEATURES:  # nothing else can be wrong
            self._check_kinds()
            self.tool_map  # noqa: B018 - checks them
        else:
            self.resolve()

    @property
    def tool_map(self) -> dict[str, Tool]:
        """Its own tools by name; the tools of its servers are known in a run only."""
        found: dict[str, Tool] = {}
        for tool in map(as_tool, self.tools):
            if tool.name in found:
                raise ConfigurationError(f"Agent {self.name!r} has two tools called {tool.name!r}")
            found[tool.name] = tool
        return found

    @property
    def chain(self) -> tuple[HistoryProcessor, ...]:
        """Its processors, functions among them made processors."""
        return as_processors(self.processors, f"Agent {self.name!r}")

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Definitions of its own tools, for models and routers."""
        return self.resolve().tools.specs

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of reports and limits."""
        counter = self.token_counter
        return _DEFAULT_TOKENIZER if counter is None else as_tokenizer(counter)

    def may_have(self, tool: str) -> bool:
        """Return whether it has a tool of this name, or any of its servers may have it."""
        return self.resolve().tools.may_have(tool)

    def resolve(self) -> AgentSpec:
        """Return the agent as it is now, ready to run.

        Raises:
            ConfigurationError: It cannot run like this.
        """
        settings, known = _SETTINGS.of(self), self._resolved
        if known is not None and is_same(known[0], settings):
            return known[1]
        spec = self._as_spec()
        # What these hold may change inside them.
        changing = self.knowledge or self.mcp_servers or self.handoffs or self.allowed_tools
        self._resolved = None if changing else (settings, spec)
        return spec

    def _as_spec(self) -> AgentSpec:
        _SETTINGS.check_names(self, f"Agent {self.name!r}")
        self._check_kinds()
        self._check_features(f"Agent {self.name!r}")
        tools, search = self.tool_map, self._knowledge_search()
        if search is not None:
            tools.setdefault(search.tool.name, search.tool)
        check_sources(self.name, self.mcp_servers)
        check_allowed(self.name, self.allowed_tools, tools, self.mcp_servers)
        choice = self.tool_choice
        if choice not in ("auto", "any", *tools) and not may_have(self.mcp_servers, choice):
            raise ConfigurationError(
                f"Agent {self.name!r}: tool_choice={choice!r} is not among its tools "
                f"(auto, any, or a tool: {sorted(tools)})"
            )
        return AgentSpec(
            agent=self,
            name=self.name,
            system=with_instructions(self.system, self.instructions, markdown=self.markdown),
            assistant=self.assistant,
            lifecycle=self.lifecycle,
            model=self.model,
            tools=AgentTools(
                own=tools,
                servers=tuple(self.mcp_servers),
                allowed=self.allowed_tools,
                choice=choice,
                hosted=tuple(self.hosted_tools),
                knowledge=search,
                in_parallel=self.parallel_tools,
                repair_arguments=self.repair_arguments,
            ),
            chain=self.chain,
            history=self.history,
            tokenizer=self.tokenizer,
            max_iter=self.max_iter,
            output=self._output(tools),
            handoffs=self._kept(
                "handoffs",
                (self.name, [handoff_facts(one) for one in self.handoffs]),
                lambda: handoff_map(self, self.handoffs),
            ),
            guardrails=self._guardrails(),
            streaming=ReplyStreaming(self.stream_before_response, self.keep_cut_replies),
        )

    def _kept(self, what: str, given: object, make: Callable[[], T]) -> T:
        """Return the cached value of the same sources, or make it."""
        if what not in self._made or self._made[what][0] != given:
            self._made[what] = given, make()
        return cast("T", self._made[what][1])

    def _guardrails(self) -> GuardrailSpec:
        return GuardrailSpec.of(
            f"Agent {self.name!r}",
            {
                "input": self.input_guardrails,
                "output": self.output_guardrails,
                "tool_input": self.tool_input_guardrails,
                "tool_output": self.tool_output_guardrails,
            },
        )

    def output_validator(
        self, function: OutputValidator[StateT, OutputT]
    ) -> OutputValidator[StateT, OutputT]:
        """Add a function that checks each output, or changes it; for use as a decorator.

        It gets the context and the output, or the output alone, and returns the output. Where it
        raises `ModelRetry` the model reads why, and answers again. Sync or async; a durable run
        calls it once for each answer.
        """
        self.output_validators = [*self.output_validators, function]
        return function

    def _output(self, tools: Mapping[str, Tool]) -> OutputSpec | None:
        if self.output_type is None:
            return None
        from agentkit_py.output.schema import (  # noqa: PLC0415 - loads pydantic
            fixed_type,
            output_spec,
        )

        where = f"Agent {self.name!r}"
        expect_count(where, "output_retries", self.output_retries)
        expect_one_of(where, "end_strategy", self.end_strategy, get_args(EndStrategy))
        given = (
            self.name,
            fixed_type(self.output_type),
            tuple(self.output_validators),
            self.output_retries,
            self.end_strategy,
        )
        found = self._kept("output", given, lambda: output_spec(*given))
        for member in found.members:
            if member.tool.name in tools:
                raise ConfigurationError(
                    f"{where}: its tool {member.tool.name!r} has the name of its output's; "
                    "rename the output with ToolOutput(…, name=…)"
                )
        return found

    def _check_kinds(self) -> None:
        where = f"Agent {self.name!r}"
        _check_hosted(where, self.hosted_tools)
        system: object = self.system
        if not isinstance(system, str) or self.instructions != () or self.markdown is not False:
            self._check_instructions(where)
        if isinstance(system, type) or not (system is None or isinstance(system, str | Callable)):
            raise wrong(where, "system", "a text or a function that returns a text", system)
        expect_context(where, "system", system, or_none=True)
        expect_model(where, "model", self.model)
        for name in _FLAGS:
            expect_bool(where, name, getattr(self, name))
        for name in ("description", "assistant"):
            expect_text(where, name, getattr(self, name))
        expect_type(where, "state_type", self.state_type)
        expect_history(where, self.history)
        expect(where, "lifecycle", self.lifecycle, Lifecycle, "a Lifecycle(…)")
        for hook in dataclasses.fields(Lifecycle) if self.lifecycle not in (None, NO_HOOKS) else ():
            given = getattr(self.lifecycle, hook.name)
            if given is not None:
                expect_function(where, hook.name, given)
                expect_context(where, hook.name, given)
        for name in ("tools", "handoffs"):
            expect_list(where, name, getattr(self, name))
        expect_count(where, "max_iter", self.max_iter)
        expect_one_of(where, "history_mode", self.history_mode, get_args(HistoryMode))

    def _check_features(self, where: str) -> None:
        """Refuse values of options that few agents have."""
        for name in ("mcp_servers", "output_validators"):
            expect_list(where, name, getattr(self, name))
        expect_method(where, "knowledge", self.knowledge, "search_for", "Knowledge(…) or the like")
        known = get_args(FilterPrecedence)
        expect_one_of(where, "filter_precedence", self.filter_precedence, known)
        for function in self.output_validators:
            expect_function(where, "each of output_validators", function)
        if self.output_validators and self.output_type is None:
            raise ConfigurationError(
                f"{where}: output_validators check outputs of an output_type; set it, e.g. "
                "output_type=str, or use output_guardrails=[…]"
            )
        if self.output_type is None and (self.output_retries, self.end_strategy) != (1, "early"):
            raise ConfigurationError(
                f"{where}: output_retries and end_strategy are of an output_type; set it, or leave "
                "them out"
            )
        if callable(self.allowed_tools):
            expect_callback(where, "allowed_tools", self.allowed_tools, "ctx")
        if inspect.isfunction(self.token_counter):
            expect_callback(where, "token_counter", self.token_counter, "text")

    def _check_instructions(self, where: str) -> None:
        given: object = self.instructions
        items = [given] if isinstance(given, str) else given
        if not isinstance(items, list | tuple) or not all(
            isinstance(one, str) and one for one in cast("Sequence[object]", items)
        ):
            raise wrong(where, "instructions", "a text or a list of texts", given)
        if self.system is None and not items:
            raise ConfigurationError(f"{where} needs system=…, or instructions=[…]")

    def _knowledge_search(self) -> KnowledgeSearch | None:
        filters = self.knowledge_filters
        if self.knowledge is None:
            if filters is not None or self.enable_agentic_knowledge_filters:
                raise ConfigurationError(
                    f"Agent {self.name!r} has knowledge filters, but no knowledge=… to search"
                )
            return None
        if not self.search_knowledge:
            return None
        return self.knowledge.search_for(
            filters=filters,
            agentic=self.enable_agentic_knowledge_filters,
            precedence=self.filter_precedence,
        )

    @property
    def input_masks(self) -> Sequence[Redactor]:
        """The redactors of its input guardrails."""
        return self._guardrails().input.redactors if self.input_guardrails else ()

    def with_model(self, model: ModelChoice) -> Self:
        """Return the agent with another model; everything else is kept."""
        return dataclasses.replace(self, model=model)

    def as_tool(self, **options: Unpack[AsToolOptions]) -> Tool:
        """Return this agent as a tool of others: each call is a run of its own.

        It has its own state and thread, sees nothing but the task, and returns
        ``{ok, result, context_id, loops}``. It may use none of its tools unless they are given.
        Its model calls count for the limits of the run it is called in.

        Args:
            options: See `AsToolOptions`.

        Raises:
            ConfigurationError: An option is not known, or a tool that is allowed is not there.
        """
        rights, allowed = options.get("allowed_tools"), None
        if rights != "own":
            allowed = names_of(self.name, rights, self.resolve().tools.own, self.mcp_servers)

        def plan(call: NestedCall, history: HistoryConfig | None) -> RunPlan[Any]:
            agent = self if allowed is None else dataclasses.replace(self, allowed_tools=allowed)

            def body(context: RunContext) -> TurnBody:
                turn = TurnOptions(
                    context.prefix,
                    model=call.model,
                    default_model=call.default_model,
                    max_iter=call.max_iter,
                    parent_run_id=call.parent_run_id,
                )
                return TurnBody(context, agent, turn, run_agent)

            return RunPlan(self._setup(history), body)

        return Nested(
            name=self.name, description=self.description, plan=plan, history=self.history
        ).tool(options)

    def _servers(self) -> Iterable[ToolSource]:
        return self.mcp_servers

    def _agents(self) -> Iterable[Agent[Any, Any]]:
        return (self,)

    def _setup(self, history: HistoryConfig | None) -> RunSetup:
        """Return the settings with which its runs by itself begin."""
        return RunSetup(
            name=self.name,
            history=history,
            mode=self.history_mode,
            masks=self.input_masks,
            state_type=self.state_type,
        )

    if TYPE_CHECKING:

        @overload
        async def run(
            self: Agent[Any, None], input: MessageInput, **options: Unpack[RunOptions]
        ) -> AgentResult: ...
        @overload
        async def run(
            self: Agent[Any, T], input: MessageInput, **options: Unpack[RunOptions]
        ) -> AgentRunResult[T]: ...
        async def run(  # noqa: D102 - the base's
            self,
            input: MessageInput,  # noqa: A002 - TypeScript's name
            **options: Unpack[RunOptions],
        ) -> Any: ...

        @overload
        def run_sync(  # pyright: ignore[reportOverlappingOverload] - None is a T, too
            self: Agent[Any, None], input: MessageInput, **options: Unpack[RunOptions]
        ) -> AgentResult: ...
        @overload
        def run_sync(
            self: Agent[Any, T], input: MessageInput, **options: Unpack[RunOptions]
        ) -> AgentRunResult[T]: ...
        def run_sync(  # noqa: D102 - the base's
            self,
            input: MessageInput,  # noqa: A002 - TypeScript's name
            **options: Unpack[RunOptions],
        ) -> Any: ...

        @overload
        def stream(  # pyright: ignore[reportOverlappingOverload] - None is a T, too
            self: Agent[Any, None], input: MessageInput, **options: Unpack[RunOptions]
        ) -> RunStream[AgentResult]: ...
        @overload
        def stream(
            self: Agent[Any, T], input: MessageInput, **options: Unpack[RunOptions]
        ) -> RunStream[AgentRunResult[T]]: ...
        def stream(  # noqa: D102 - the base's
            self,
            input: MessageInput,  # noqa: A002 - TypeScript's name
            **options: Unpack[RunOptions],
        ) -> Any: ...

    def plan_run(self, options: RunOptions) -> RunPlan[Any]:
        """Return how a run with these options begins, and its work.

        Raises:
            ConfigurationError: A router was given.
        """
        if options.get("router") is not None:
            raise ConfigurationError(
                f"run() of agent {self.name!r} got router=…, but only networks have routers: "
                "use Network(name=…, agents=[…], router=…)"
            )
        if self.history_mode != "typescript":
            where = f"Agent {self.name!r}"
            check_tool_limits(where, options.get("limits"), [self])
            if self.processors:
                check_filters(where, [self.processors], [self])
        model, max_iter = options.get("model"), options.get("max_iter")

        def body(context: RunContext) -> AgentRun:
            if model is None and self.resolve().model is None:
                raise MissingModelError(self.name)  # before a thread is made for nothing
            turn = TurnOptions(context.prefix, model, max_iter=max_iter)
            return AgentRun(context, self, turn, run_agent)

        return RunPlan(self._setup(self.history), body)


@options_spelled_here
@spelled_here
@dataclass(eq=False, kw_only=True)
class RoutingAgent(Agent[StateT, OutputT]):
    """An agent whose answer says which agents are next; its lifecycle needs `on_route`."""

    is_routing: ClassVar[bool] = True

    max_iter: int = 1
    """The maximum number of inferences in a turn: its answer is mostly a tool call."""

    def __post_init__(self) -> None:
        """Check that it can route."""
        super().__post_init__()
        if self.lifecycle.on_route is None:
            raise ConfigurationError(
                f"Routing agent {self.name!r} needs lifecycle=Lifecycle(on_route=…)"
            )


_DEFAULT_TOKENIZER = default_tokenizer()
_SETTINGS = Settings(
    Agent,
    "tools",
    "instructions",
    "processors",
    "hosted_tools",
    "output_type",
    "output_validators",
    "input_guardrails",
    "output_guardrails",
    "tool_input_guardrails",
    "tool_output_guardrails",
)
_FLAGS = (
    *("markdown", "search_knowledge", "enable_agentic_knowledge_filters"),
    *("stream_before_response", "parallel_tools", "repair_arguments", "keep_cut_replies"),
)
_NAMES = (
    *("filter_precedence", "output_validators", "output_retries", "end_strategy"),
    *("mcp_servers", "knowledge", "knowledge_filters", "enable_agentic_knowledge_filters"),
    *("tool_choice", "output_type", "handoffs", "allowed_tools", "processors", "token_counter"),
    *("input_guardrails", "output_guardrails"),
    *("tool_input_guardrails", "tool_output_guardrails"),
)
_FEATURES, _NO_FEATURES = itemgetter(*_NAMES), tuple([getattr(Agent, name) for name in _NAMES])
"""Fields with checks of their own, which an agent that leaves them empty does not need."""


def takes_arguments_of(
    kind: Callable[P, A],
) -> Callable[[Callable[..., Any]], Callable[P, A]]:
    """Return a decorator that gives a function the signature of ``kind``."""

    def decorate(function: Callable[..., Any]) -> Callable[P, A]:
        update_wrapper(function, kind, assigned=(), updated=())  # for `inspect.signature`
        return cast("Callable[P, A]", function)

    return decorate


@takes_arguments_of(Agent)
def create_agent(*args: Any, **options: Any) -> Any:
    """Make an agent as TypeScript's ``createAgent`` does: ``max_iter`` is 1 unless given."""
    options.setdefault("max_iter", 1)
    return Agent(*args, **options)


create_routing_agent = RoutingAgent
"""Make a routing agent, under TypeScript's name."""


def _check_hosted(where: str, hosted: Sequence[HostedTool]) -> None:
    """Check the tools that the provider runs.

    Raises:
        ConfigurationError: They are not a list of tools, or the program has to run one.
    """
    given: object = hosted
    if given == ():
        return
    if not isinstance(given, list | tuple) or not all(
        isinstance(one, str | Mapping) for one in hosted
    ):
        raise wrong(where, "hosted_tools", "a list of names and dicts", given)
    for one in hosted:
        if not isinstance(one, str) and is_run_by_program(one):
            raise ConfigurationError(
                f"{where}: hosted_tools={dict(one)!r:.120}: the provider does not run this tool, "
                "the program does. Pass tools=[provider_tool({…}, handler)], with "
                "agentkit_py.tools.provider_tool."
            )
