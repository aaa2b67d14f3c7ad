"""Model input: history → processors → validity → `on_start` → validity → request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import AgentSpec, Turn
from agentkit_py._engine.definition import digest_of_messages
from agentkit_py._engine.instrumentation import CallEdit, Chains, ModelCall, Monitor, Rehearsal
from agentkit_py._engine.option_checks import START, expect
from agentkit_py._engine.prompt import join_history
from agentkit_py._engine.reasoning import (
    LEVELS,
    refused_reasoning,
    with_adapters_word,
    without_reasoning,
)
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.shared_prefix import SYSTEM, SharedPrefix
from agentkit_py._engine.state_changes import NoChanges
from agentkit_py.events.types import ContextActivity
from agentkit_py.history.abilities import abilities_of
from agentkit_py.lifecycle.hooks import Start, StartContext
from agentkit_py.messages import Message, ToolResultMessage, lineage
from agentkit_py.models.base import Compaction, Model, ModelReply, ModelRequest, ToolSpec
from agentkit_py.models.binding import digest_of
from agentkit_py.models.capabilities import window_of
from agentkit_py.processors.apply import is_enough, run_chain, steps_of
from agentkit_py.processors.base import ProcessorContext, Stage
from agentkit_py.processors.current_results import shorten_results
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.restoring import Restored, restore_held, without_results_of_others
from agentkit_py.processors.tokenizers import count_messages, count_text
from agentkit_py.processors.validity import ensure_valid
from agentkit_py.processors.windowing import TokenLimiter
from agentkit_py.runtime.asking import Replied, first_answer, read_reply
from agentkit_py.runtime.keys import bind_keys
from agentkit_py.state import tenant_of
from agentkit_py.tools.definition import Tool

_CHOICES = ("auto", "any")


class ModelInput(NamedTuple):
    """The request of a model call, and the origin of its messages."""

    history: Sequence[Message]
    """The history as processors and hooks left it."""

    report: ContextReport
    request: ModelRequest
    stop: bool = False
    """True if `on_start` ends the turn without a model call."""

    healed: bool = False
    """True if it leaves out reasoning that the provider has just refused."""


@dataclass(slots=True, kw_only=True)
class TurnServices:
    """The engine's services for the processors of an inference: model calls, steps, events."""

    run: RunContext
    turn: Turn
    path: str
    """Step id prefix of the inference."""

    _counts: dict[str, int] = field(default_factory=dict[str, int], init=False)

    def step_id(self, name: str) -> str:
        """Return ``name`` behind the inference's prefix, counted where it comes again."""
        count = self._counts[name] = self._counts.get(name, 0) + 1
        return f"{self.path}.{name}" if count == 1 else f"{self.path}.{name}:{count}"

    def new_id(self, key: str) -> str:
        """Return an id of the runtime's."""
        return self.run.runtime.new_id(key)

    def now(self, key: str) -> datetime:
        """Return the runtime's time."""
        return self.run.runtime.now(f"{self.path}.{key}")

    async def ask_model(
        self, step_id: str, model: Model, messages: Sequence[Message]
    ) -> ModelReply:
        """Call a model; the run's meter counts the call."""
        run, agent = self.run, self.turn.agent
        request = ModelRequest(messages=tuple(messages), agent=agent.name)

        async def call_model(alternative: Model, suffix: str) -> Replied:
            step = f"{step_id}{suffix}"
            call = ModelCall(
                run_id=self.turn.run_id, step_id=step, model=alternative, request=request
            )
            with run.monitor.model_call(call):
                body = await run.runtime.infer(
                    step, alternative, lambda: alternative.encode(request)
                )
            return Replied(
                read_reply(alternative, body, run.runtime, step, run.spending.meter.read)[1]
            )

        guarded = run.spending.guarded(bind_keys(model, run.context_of(agent)))
        return (await first_answer(guarded, call_model, run.runtime, step_id)).reply

    async def once(self, step_id: str, handler: Callable[[], Awaitable[JsonValue]]) -> JsonValue:
        """Run ``handler`` in a step."""
        return await self.run.runtime.effect(step_id, handler, NoChanges())

    async def announce(self, activity: str, stage: Stage, facts: dict[str, Any]) -> None:
        """Emit an event of a processor's activity."""
        event = ContextActivity(**self.turn.facts, activity=activity, stage=stage, facts=facts)
        await self.run.monitor.emit(event)


@dataclass(slots=True, kw_only=True)
class ModelInputBuilder:
    """Builds the input of an inference of an agent."""

    run: RunContext
    turn: Turn
    tools: Mapping[str, Tool]
    """The tools that the model is offered."""

    path: str = ""
    """Step id prefix of the inference."""

    dry: bool = False
    """Build the input of a call that is not made: nothing has a side effect."""

    catching_up: bool = False
    """The thread is indexed; see `ProcessorContext.catching_up`."""

    other_chains: Chains | None = None
    """Processors to try in place of those that are configured."""

    agent: AgentSpec = field(init=False)
    """The agent whose turn it is."""

    shared: SharedPrefix | None = field(init=False)
    """The beginning that the agent's requests share with others; None: they share none."""

    services: TurnServices | None = None
    """Services for processors, made here unless given; None in a dry build."""

    def __post_init__(self) -> None:
        """Read agent, shared prefix and services from the turn."""
        run, turn = self.run, self.turn
        self.agent = turn.agent
        self.shared = run.choices.shared if turn.shares_prefix else None
        if self.dry:
            self.services = None
        elif self.services is None:
            self.services = TurnServices(run=run, turn=turn, path=self.path)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The definitions of the tools in the request to the model."""
        return tuple([tool.spec for tool in self.tools.values()]) if self.tools else ()

    @property
    def own_tools(self) -> frozenset[str]:
        """Names of all tools that the agent has, whether they are offered now or not."""
        tools = self.agent.tools
        if not tools.servers and not tools.hosted:
            return frozenset(tools.own)
        known = self.run.choices.sources.known(tools.servers, tools.own)
        return frozenset((*known, *(name for name in tools.hosted if isinstance(name, str))))

    @property
    def chains(self) -> Chains:
        """The processors, level by level."""
        if self.other_chains is not None:
            return self.other_chains
        return self.run.choices.chains_of(self.agent)

    async def build(self) -> ModelInput:
        """Return the input of the next model call."""
        agent = self.agent
        run = self.run
        if not run.choices.are_known(agent):
            await run.choose_processors(agent, dry=self.dry)
        prompt = await self._prompt()
        entries: list[ReportEntry] = []
        if run.thread.pages.older is not None:
            await self._load(prompt)
        history = full = run.transcript.history()
        chains, hook = self.chains, agent.lifecycle.on_start
        if run.choices.shared is not None:
            self._say_if_apart(run.choices.shared, full, entries)
        if not chains and hook is None:
            return self._input(prompt, history, entries, full)
        context = self._context(prompt, full)
        if chains:
            around = None if self.dry else self.run.monitor.processors(self.path)
            outcome = await run_chain(full, chains, context, around)
            history, entries = outcome.messages, [*entries, *outcome.entries]
            context = replace(context, protected=outcome.protected, pinned=outcome.pinned)
        if hook is None:
            return self._input(prompt, history, entries, full, wishes=context.wishes)
        before = history = _valid(history, entries, agent)
        start = await self._on_start(prompt, history, context)
        prompt, history = tuple(start.prompt), without_results_of_others(before, start.history)
        # Without its own calls the model would make them again and again.
        held = context.protected.difference(map(id, prompt))
        restored = restore_held(before, history, held) if held else Restored(history)
        history = restored.messages
        if not self.dry:
            self.run.runtime.decide(
                f"{self.path}.on_start",
                lambda: digest_of_messages(prompt, history, stop=start.stop),
                f"on_start of {agent.name!r} returned messages with digest",
            )
        if restored.count or history != tuple(before):
            entry = _entry("on_start", "on_start", before, history, agent)
            entries.append(replace(entry, kept_back=restored.count))
        return self._input(prompt, history, entries, full, stop=start.stop, wishes=context.wishes)

    async def build_shorter(self, refused: ModelInput) -> ModelInput:
        """Return about half of an input that a provider refused as too long."""
        agent, full = self.agent, refused.report.history
        pins = {id(m) for _, processor in steps_of(self.chains) for m in processor.pinned(full)}
        context = replace(
            self._context(refused.report.prompt, refused.history),
            pinned=frozenset(
                id(m) for m in refused.history if not pins.isdisjoint(map(id, lineage(m)))
            ),
        )
        sent = count_messages(refused.request.messages, agent.tokenizer)
        prompt = count_messages(refused.report.prompt, agent.tokenizer)
        history, reason = await halved(refused.history, sent, prompt, context)
        entry = _entry("overflow", OVERFLOW, refused.history, history, agent, reason)
        return self._input(refused.report.prompt, history, [*refused.report.entries, entry], full)

    def for_model(
        self, made: ModelInput, model: Model, entries: Sequence[ReportEntry] = ()
    ) -> tuple[ModelInputBuilder, ModelInput]:
        """Return the same input for another model, and a builder of further inputs for it.

        Args:
            made: The input.
            model: The other model.
            entries: Further entries of the report.
        """
        own = replace(self, turn=self.turn._replace(model=model))
        kept = [entry for entry in made.report.entries if entry.level not in LEVELS]
        report = replace(made.report, entries=(*kept, *entries))
        account = self.run.runtime.account(model)
        refused = refused_reasoning(self.run, model)
        request = replace(made.request, account=account, refused=refused)
        report = with_adapters_word(model, request, report)
        return own, made._replace(request=request, report=report, healed=False)

    def build_unsigned(self, refused: ModelInput) -> ModelInput:
        """Return an input without the reasoning for which a provider refused it."""
        request, report = without_reasoning(
            self.run, self.turn.model, refused.request, refused.report
        )
        return refused._replace(request=request, report=report, healed=True)

    def model_call(self, step_id: str, made: ModelInput) -> ModelCall:
        """Return the call of an input, as instrumentations get it."""
        problem, kept = "", None
        if self.run.monitor.wants_rehearsals:
            try:
                kept = replace(self, run=_frozen(self.run), dry=True)
            except Exception as error:  # noqa: BLE001 - states that cannot be copied hold anything
                problem = f"the state cannot be copied ({type(error).__name__}: {error})"
        return ModelCall(
            run_id=self.turn.run_id,
            message_id=self.turn.message_id,
            step_id=step_id,
            model=self.turn.model.for_request(made.request),
            request=made.request,
            report=made.report,
            state=(self if kept is None else kept).run.state,
            chains=self.chains,
            again=None if kept is None else kept.rehearse,
            problem=problem,
        )

    async def rehearse(self, edit: CallEdit) -> Rehearsal:
        """Return the call as it would be sent with ``edit``; see `ModelCall.rehearse`."""
        run, turn, shared = _frozen(self.run), self.turn, self.shared
        if edit.system is not None:
            turn = turn._replace(agent=replace(turn.agent, system=edit.system))
            if shared is not None:
                own = shared.with_system(turn.agent, edit.system)
                run = replace(run, choices=replace(run.choices, shared=own))
        if edit.input is not None:
            run = replace(run, messages=run.messages.with_content(edit.input))
        made = await replace(self, run=run, turn=turn, other_chains=edit.chains).build()
        return Rehearsal(turn.model, made.report, made.request, made.stop)

    def _input(
        self,
        prompt: Sequence[Message],
        history: Sequence[Message],
        entries: list[ReportEntry],
        full: Sequence[Message],
        *,
        stop: bool = False,
        wishes: Sequence[Compaction] = (),
    ) -> ModelInput:
        agent, run, model = self.agent, self.run, self.turn.model
        joined, prefill = join_history(prompt, history, run.choices.mode)
        joined = tuple(_valid(joined, entries, agent, run.memory.requests.count_known(joined)))
        run.memory.requests.add(joined)
        report = ContextReport(
            agent=agent.name,
            entries=tuple(entries),
            prompt=prompt,
            history=full,
            sent=joined,
            tokenizer=agent.tokenizer,
            own_tools=self.own_tools,
        )
        choice, plan = agent.tools.choice, self.turn.output
        if choice == "auto" and plan is not None and plan.is_forced:
            choice = "any"
        request = ModelRequest(
            messages=joined,
            tools=self.specs,
            hosted=agent.tools.hosted,
            # A tool that may not be called now cannot be asked for either.
            tool_choice=choice if choice in _CHOICES or choice in self.tools else "auto",
            agent=agent.name,
            prefill=prefill,
            account=run.runtime.account(model),
            refused=refused_reasoning(run, model),
            output=None if plan is None else plan.format,
            cache_key=self._cache_key,
            compaction=wishes[-1] if wishes else None,
            writers=run.memory.requests.writers,
        )
        if self.shared is not None:
            request = self.shared.share(request)
            report = replace(report, sent=request.messages)
        report = with_adapters_word(model, request, report)
        return ModelInput(history, report, request, stop)

    @property
    def _cache_key(self) -> str | None:
        """A digest of the thread's id, which providers do not get to see; None: TypeScript's."""
        thread = self.run.transcript.state.thread_id
        if self.run.choices.mode == "typescript":
            return None
        return digest_of(["thread", thread]) if thread else ""

    def _say_if_apart(
        self, shared: SharedPrefix, history: Sequence[Message], entries: list[ReportEntry]
    ) -> None:
        """Report why the agent does not share the prefix where others do."""
        if self.turn.shares_prefix or self.agent.agent.is_routing:
            return
        reason = f"a prefix of its own: {shared.why_apart(self.agent, self.turn.model)}"
        entries.append(_entry("prefix", "prefix", history, history, self.agent, reason))

    async def _prompt(self) -> tuple[Message, ...]:
        agent, run, system = self.agent, self.run, self.agent.system
        if self.shared is not None:
            return run.messages.input.prompt(SYSTEM, "")
        if not isinstance(system, str):
            system = await agent.system_prompt(run.context_of(agent))
        search = agent.tools.knowledge
        if search is not None and search.tool.name in self.tools:
            instructions = await self._knowledge_instructions()
            system = f"{system}\n\n{instructions}" if system else instructions
        plan = self.turn.output
        if plan is not None and plan.instructions:
            system = f"{system}\n\n{plan.instructions}" if system else plan.instructions
        return run.messages.input.prompt(system, agent.assistant)

    async def _knowledge_instructions(self) -> str:
        """Return the system prompt's text about the agent's knowledge, read once in a run."""
        search, run, services = self.agent.tools.knowledge, self.run, self.services
        assert search is not None
        key = f"knowledge:{id(search)}"
        instructions = run.memory.values.get(key)
        if instructions is None:
            if services is None or not search.agentic:
                instructions = await search.instructions(run.state)
            else:
                step_id = services.step_id("knowledge")
                instructions = await services.once(step_id, lambda: search.instructions(run.state))
            run.memory.values[key] = instructions
        return str(instructions)

    async def _load(self, prompt: Sequence[Message]) -> None:
        """Load as much of the thread as the processors want to see."""
        run, chains = self.run, self.chains
        context = self._context(prompt, run.transcript.history())
        await run.load_enough(
            lambda newest: is_enough(newest, chains, replace(context, unloaded=run.not_loaded))
        )

    def _context(self, prompt: Sequence[Message], history: Sequence[Message]) -> ProcessorContext:
        run, agent, model = self.run, self.agent, self.turn.model
        able = abilities_of(run.history)
        return ProcessorContext(
            agent=agent.name,
            network=None if run.network is None else run.network.name,
            thread_id=run.state.thread_id,
            state=run.state,
            user_id=run.user_id,
            tenant=tenant_of(run.state),
            own_tools=self.own_tools,
            model=model.model,
            context_window=model.context_window or window_of(model.model),
            tokenizer=agent.tokenizer,
            prompt=prompt,
            protected=self._protected(history),
            steps=run.runtime.step,
            input=run.messages.input.text,
            now=run.messages.input.message.client_timestamp,
            times=run.transcript.times,
            tools=self.specs if self.shared is None else self.shared.tools,
            own_view=run.choices.has_own_chain(agent),
            shares_prefix=self.shared is not None,
            services=self.services,
            summaries=able.summaries,
            vectors=able.vectors,
            memory=run.memory.values,
            unloaded=run.not_loaded,
            dry=self.dry,
            catching_up=self.catching_up,
        )

    def _protected(self, history: Sequence[Message]) -> frozenset[int]:
        """Return the ids of the calls and results that this agent made in this run."""
        if self.run.choices.mode == "typescript":
            return frozenset()
        name = self.agent.name
        shared = self.shared is not None  # all agents see the same then
        # A list, not a generator, which would be resumed for each message of the run.
        own = [
            id(m)
            for m in history
            if m.from_history is False and m.type != "text" and (shared or m.agent == name)
        ]
        return frozenset(own)

    async def _on_start(
        self, prompt: Sequence[Message], history: Sequence[Message], processing: ProcessorContext
    ) -> Start:
        hook, run = self.agent.lifecycle.on_start, self.run
        assert hook is not None
        context = StartContext(
            agent=self.agent.agent,
            network=run.network,
            state=run.state,
            input=run.messages.input.text,
            prompt=prompt,
            history=history,
            processing=replace(
                processing,
                own_view=True,
                hiding=tuple(
                    processor
                    for _, processor in steps_of(self.chains)
                    if not processor.same_for_all
                ),
            ),
        )
        start = await resolve(hook(context))
        where = f"Agent {self.agent.name!r}"
        expect(where, "the result of on_start", start, Start, START)
        return Start(prompt, history) if start is None else start


def _frozen(run: RunContext) -> RunContext:
    """Return the run as it is now, on a state of its own; nothing is saved or emitted by it."""
    fork = run.fork(Monitor(run.runtime, ()))
    if run.network is not None:
        return replace(fork, network=run.network.frozen(fork.transcript))
    return fork


def _valid(
    messages: Sequence[Message], entries: list[ReportEntry], agent: AgentSpec, known: int = 0
) -> Sequence[Message]:
    valid, repairs = ensure_valid(messages, known)
    if repairs:
        reason = "; ".join(str(repair) for repair in repairs)
        entries.append(_entry("validity", "validity", messages, valid, agent, reason))
    return valid


def _entry(
    level: Any,
    name: str,
    before: Sequence[Message],
    after: Sequence[Message],
    agent: AgentSpec,
    reason: str = "",
) -> ReportEntry:
    return ReportEntry(
        level=level,
        name=name,
        reason=reason,
        before=before,
        after=after,
        tokenizer=agent.tokenizer,
    )


OVERFLOW = "ContextOverflow"


async def halved(
    history: Sequence[Message], sent: int, prompt: int, context: ProcessorContext
) -> tuple[Sequence[Message], str]:
    """Return a history with which the request has about half of its tokens.

    The newest messages stay, calls with their results; the agent's own current calls stay too, with
    shorter results if nothing else helps.

    Args:
        history: The history that was sent.
        sent: Tokens that were sent.
        prompt: The part of them that is not history.
        context: Names the protected messages, and the tokenizer.

    Returns:
        The history, and the reason for the report.
    """
    tokenizer = context.tokenizer
    assert tokenizer is not None
    limit = max(1, sent // 2 - prompt)
    held = [message for message in history if id(message) in context.held]
    reason = f"the provider refused {sent} tokens as too many; limit of {limit} for the history"
    if count_messages(held, tokenizer) > limit:
        others = count_messages(held, tokenizer) - sum(
            count_text(m, tokenizer) for m in held if isinstance(m, ToolResultMessage)
        )
        short = shorten_results(history, context, int(max(1, limit - others) // 2), tokenizer)
        history, context = short.messages, short.context
        reason += ", results of the current calls shortened"
    return await TokenLimiter(limit, tokenizer=tokenizer, shorten_current=False).process(
        history, context
    ), reason
