"""Deliberate differences in agents, networks, state, history, streaming and processors."""

from __future__ import annotations

from .divergence import Divergence

ENGINE: tuple[Divergence, ...] = (
    Divergence(
        "mcp-works",
        "agent.ts listMCPTools",
        "MCP servers work with what an installation brings.",
        "TypeScript's package lacks a part of its schema conversion: each agent with a server's"
        " tools fails at its first inference.",
    ),
    Divergence(
        "mcp-schemas-undamaged",
        "agent.ts listMCPTools",
        "The schemas of a server's tools reach the model as the server gave them.",
        "TypeScript drops descriptions, enums, minimums and defaults, makes integers numbers, and"
        " asks for strict mode.",
    ),
    Divergence(
        "mcp-errors-are-errors",
        "agent.ts listMCPTools",
        "A result with isError is an error for the model.",
        "TypeScript takes it for what the tool returned.",
    ),
    Divergence(
        "mcp-agents-stay-as-they-are",
        "agent.ts initMCP",
        "An agent's own tools stay as they are; those of its servers are asked for in each run.",
        "TypeScript adds them to the agent in its first run, and does not look again.",
    ),
    Divergence(
        "mcp-servers-that-fail",
        "agent.ts mcpClient",
        "A server that does not list its tools fails the run, unless it is not required.",
        "TypeScript logs it and asks the model without the tools that the agent counts on.",
    ),
    Divergence(
        "loops-keep-their-history",
        "agent.ts run",
        "The model sees, at each further inference of a turn, everything from before and "
        "all calls with their results.",
        "TypeScript shows it only the last reply, without the results: a request that "
        "OpenAI and Anthropic refuse.",
    ),
    Divergence(
        "prompts-at-every-inference",
        "agent.ts run",
        "A system prompt that is a function, and what on_start did to the prompt, are made "
        "anew for each inference.",
        "A prompt that tells the state must not tell an old one.",
        "a system function in a loop",
    ),
    Divergence(
        "processors-at-every-inference",
        "processors.ts (proposal)",
        "History processors run before each inference of a turn.",
        "What tools gave in the meantime has to be filtered and counted, too.",
    ),
    Divergence(
        "calls-decide-whether-a-loop-goes-on",
        "agent.ts run",
        "A turn goes on while the model calls tools, and ends when it does not.",
        "TypeScript looks at the last message's stop reason, which some providers never give.",
    ),
    Divergence(
        "agents-keep-their-results",
        "agent.ts run",
        "An agent that runs by itself adds its results to its state and saves them.",
        "TypeScript drops them, so the next turn and the store know nothing of them.",
    ),
    Divergence(
        "agents-save-what-the-user-said",
        "agent.ts run",
        "An agent that runs by itself saves the user's message.",
        "Otherwise its thread is a list of answers without questions.",
    ),
    Divergence(
        "results-have-ids",
        "types.ts AgentResult",
        "Every result has an id, from the start of its hooks on.",
        "Stores and front ends need one; TypeScript gives ids only in networks and streams,"
        " and after on_response.",
    ),
    Divergence(
        "each-inference-has-its-id",
        "agent.ts run",
        "Each inference's result has an id of its own.",
        "Two results of one thread cannot share a key.",
    ),
    Divergence(
        "tool-results-keep-arguments",
        "agent.ts invokeTools",
        "A tool result's call keeps its arguments.",
        "TypeScript looks for a member called `arguments` inside them and so loses all "
        "others, and fails where there are none.",
    ),
    Divergence(
        "tool-results-of-hooks",
        "agent.ts performInference",
        "The results of a turn's calls replace those that an on_response hook put there.",
        "A result without its call is refused by every provider.",
    ),
    Divergence(
        "missing-arguments",
        "agent.ts invokeTools",
        "Arguments that are missing are an empty object.",
        "Gemini leaves them out for tools without parameters; TypeScript fails after the "
        "tool has run.",
    ),
    Divergence(
        "malformed-arguments",
        "openai.ts safeParseOpenAIJson",
        "Arguments that are no JSON, and calls that name no tool, become an error result that the "
        "model reads.",
        "One slip of the model must not end the whole run.",
    ),
    Divergence(
        "arguments-are-read-as-json-first",
        "openai.ts safeParseOpenAIJson",
        "Arguments are read as the JSON they are before anything is repaired, and JSON "
        "inside a JSON string, or in place of one, is read, too.",
        "TypeScript strips quotes first and so spoils valid strings.",
        "openai.args.wrapped_*",
    ),
    Divergence(
        "arguments-are-validated",
        "agent.ts invokeTools",
        "Arguments that do not fit the tool's schema become an error result, and the tool "
        "is not called.",
        "TypeScript never looks at the schema; handlers get anything.",
    ),
    Divergence(
        "unknown-tools",
        "agent.ts invokeTools",
        "A call of a tool that the agent does not have becomes an error result.",
        "TypeScript fails the run after the tools before it had their effects.",
    ),
    Divergence(
        "synchronous-throws",
        "agent.ts invokeTools",
        "A handler that throws at once is treated like one that rejects later: the model "
        "reads the error.",
        "Whether a function is async says nothing about how bad its error is.",
    ),
    Divergence(
        "errors-without-stack",
        "agent.ts invokeTools",
        "The error that the model reads has a name and a message, nothing else.",
        "Stack traces, codes and causes are the machine's business, and cost tokens.",
    ),
    Divergence(
        "null-is-success",
        "agent.ts invokeTools",
        "A handler that returns nothing gives a sentence of success; None is nothing.",
        "Python has one word for undefined and null.",
    ),
    Divergence(
        "no-kv",
        "state.ts State",
        "A state has one store, its data; `kv` is a view of it.",
        "`kv` is deprecated in TypeScript, and changes apart from the data.",
    ),
    Divergence(
        "calls-are-the-assistants",
        "types.ts ToolCallMessage",
        "A message with tool calls is the assistant's and stopped for a tool, whatever it "
        "was given.",
        "No provider knows another role.",
    ),
    Divergence(
        "empty-messages-are-not-saved",
        "network.ts execute",
        "A user message without content is not saved.",
        "There is nothing in it.",
        "a store with an empty input",
    ),
    Divergence(
        "histories-are-made-valid",
        "state.ts formatHistory",
        "Calls without result, results without call and calls of nothing never reach hook "
        "or model; Grok reads `(empty)` where a result is an empty text.",
        "Providers refuse the whole request for one of them.",
    ),
    Divergence(
        "system-prompt-of-the-user-message",
        "network.ts execute",
        "The user message's system prompt is added in networks, too.",
        "TypeScript adds it only for agents that run by themselves.",
        "network.user_message_system_prompt_lost",
    ),
    Divergence(
        "with-model-keeps-everything",
        "agent.ts withModel",
        "with_model changes the model and nothing else.",
        "TypeScript drops the history, the tool choice and the MCP servers.",
        "openai.with_model",
    ),
    Divergence(
        "threads-open-before-a-run-starts",
        "agent.ts run",
        "A thread is created and loaded before run.started is sent, so all chunks carry its id.",
        "TypeScript's agents build the stream first, and a new thread's id is on no chunk.",
    ),
    Divergence(
        "every-failure-is-announced",
        "agent.ts run",
        "A run that has been announced and fails ends with run.failed.",
        "A front end otherwise waits for ever after a failing system prompt, or where "
        "nobody is enabled.",
    ),
    Divergence(
        "failing-agents-say-so",
        "network.ts execute",
        "An agent that fails in a network sends its own run.failed.",
        "In TypeScript its run.started stays without an end.",
    ),
    Divergence(
        "one-end-of-a-run",
        "network.ts execute",
        "A run ends once: completed or failed.",
        "TypeScript sends run.completed after run.failed, and both ends twice for agents "
        "that are missing.",
    ),
    Divergence(
        "failed-runs-keep-their-results",
        "network.ts execute",
        "If a run fails half way, the results that were completed are saved.",
        "They cost money, and may have had effects.",
        "network.agent_fails",
    ),
    Divergence(
        "results-are-saved-however-a-run-ends",
        "network.ts execute",
        "A network saves its results also when it ends at an agent that nobody knows.",
        "TypeScript returns early and forgets them.",
        "a network whose second agent is unknown",
    ),
    Divergence(
        "stopped-turns-keep-their-results",
        "agent.ts run",
        "What a turn gave before on_start stopped it is saved.",
        "TypeScript returns early and saves nothing.",
        "lifecycle.on_start_stop with a store",
    ),
    Divergence(
        "new-threads-are-not-loaded",
        "history.ts loadThreadFromStorage",
        "An agent's new thread is not loaded.",
        "There is nothing in it; networks do the same in TypeScript.",
    ),
    Divergence(
        "a-message-is-said-once",
        "state.ts formatHistory",
        "A user turn of the thread with the id of the run's message is that message: the model"
        " sees it once.",
        "Front ends send it again after an error.",
        "a message with the id of one that was said",
    ),
    Divergence(
        "load-before-saving",
        "network.ts execute",
        "The thread is loaded before the user's message is saved.",
        "Otherwise a store hands the new message back as an old one.",
    ),
    Divergence(
        "create-thread-may-return-nothing",
        "history.ts initializeThread",
        "create_thread may return nothing and leaves the thread id as it is.",
        "In TypeScript this fails while the object is taken apart.",
    ),
    Divergence(
        "stores-name-the-thread",
        "history.ts initializeThread",
        "What create_thread returns is the run's thread, also if the client named another.",
        "The store has the last word on where it keeps things.",
    ),
    Divergence(
        "empty-ids",
        "history.ts initializeThread",
        "An empty id of a thread or message is none from the start.",
        "Front ends send one before there is a thread; TypeScript shows it to create_thread.",
    ),
    Divergence(
        "agents-threads-are-the-networks",
        "agent.ts run",
        "In a network only the network's store is used; an agent's own store is for runs by"
        " itself.",
        "TypeScript loads the agent's thread into the shared state and then hands old "
        "results to the network's store as new ones.",
    ),
    Divergence(
        "plain-states-keep-their-thread",
        "network.ts run",
        "A state given as a plain object keeps its thread, its messages and its results.",
        "TypeScript's networks drop the id and start a new thread, and its agents fail.",
    ),
    Divergence(
        "default-state-is-copied",
        "state.ts clone",
        "Each run works on a deep copy of the network's default state.",
        "TypeScript copies one level, so what is nested leaks from run to run.",
        "network.rerun_network",
    ),
    Divergence(
        "routers-are-not-asked-after-the-limit",
        "network.ts execute",
        "The router is not asked once max_iter is reached.",
        "With a routing agent TypeScript pays for one more inference whose answer nobody uses.",
    ),
    Divergence(
        "networks-stop-at-fifty",
        "network.ts execute",
        "A network without max_iter stops after fifty agent turns, and says so.",
        "Two agents that hand over to each other would go on for ever.",
    ),
    Divergence(
        "disabled-agents-do-not-run",
        "network.ts availableAgents",
        "An agent that is disabled when its turn comes does not run.",
        "In TypeScript `enabled` only filters what the routing agent is offered.",
    ),
    Divergence(
        "unknown-agents-end-the-run",
        "network.ts getNextAgents",
        "A router that names an agent nobody knows ends the run, with a stop reason that says so.",
        "TypeScript leaves the name out silently, or fails while it shows the stack to the router.",
    ),
    Divergence(
        "added-agents-can-run",
        "network.ts execute",
        "An agent that was added during the run can be named by a routing agent.",
        "TypeScript keeps two lists of agents and looks into the other one.",
    ),
    Divergence(
        "negative-limits-are-refused",
        "network.ts execute",
        "A negative max_iter is refused.",
        "TypeScript silently runs nobody.",
        "a network with maxIter -1",
    ),
    Divergence(
        "replies-are-sorted",
        "model.ts infer",
        "Inside Inngest the members of a reply stand in alphabetical order.",
        "Its server writes them so; the recordings were made without one.",
    ),
    Divergence(
        "names-are-checked",
        "tool.ts createTool",
        "Agents and networks have a name, and a tool's has 1 to 64 letters, digits, `_` or `-` and "
        "begins with a letter or `_`; names in calls that a history holds are sent so.",
        "Providers refuse other tools, which TypeScript sends, and its networks stop at an agent "
        "without name.",
        "a tool whose name holds a blank",
    ),
    Divergence(
        "agents-run-by-themselves",
        "agent.ts run",
        "An agent that runs by itself is in no network: pass it a model and a state.",
        "TypeScript's `network` option lends both, and no streaming.",
        "an agent with a network option, streamed",
    ),
    Divergence(
        "routing-agents-stand-alone",
        "network.ts getNextAgents",
        "A routing agent that a router returns in a list with others is refused.",
        "TypeScript runs it as one more agent whose result is kept, and nobody is routed.",
        "a router that returns a routing agent in a list",
    ),
    Divergence(
        "routing-agents-choose",
        "network.ts getNextAgents",
        "A routing agent without on_route is refused when it is made.",
        "TypeScript asks its model and then fails with a TypeError.",
    ),
    Divergence(
        "names-are-unique",
        "network.ts Network",
        "Two agents of a network, or two tools of an agent, that have one name are refused.",
        "TypeScript forgets the first one.",
        "a network with two agents of one name",
    ),
    Divergence(
        "on-start-keeps-an-agents-calls",
        "agent.ts run",
        "What an agent called in this run, and the results, stay in its history when on_start takes"
        " them out.",
        "Without them the model makes the same calls again and again.",
        "an on_start that sets the history in a loop",
    ),
    Divergence(
        "scheduled-agents-run",
        "network.ts execute",
        "What a router schedules runs, also if it returns nobody.",
        "TypeScript ends there in the first round, and runs it in later ones.",
        "a router that schedules and returns nothing",
    ),
    Divergence(
        "tool-choice-names-a-tool",
        "agent.ts performInference",
        "A tool choice that names no tool of the agent is refused.",
        "Providers refuse the request.",
        "a tool choice without its tool",
    ),
    Divergence(
        "agents-without-model-do-not-start",
        "network.ts execute",
        "An agent of a network that has no model fails before its run is announced.",
        "TypeScript announces the run and never its end.",
        "an agent without a model in a streamed network",
    ),
    Divergence(
        "tools-schedule",
        "agent.ts run",
        "schedule() in a tool has an effect.",
        "In TypeScript it changes a copy of the run that nobody looks at.",
    ),
    Divergence(
        "all-texts-are-streamed",
        "agent.ts performInference",
        "All texts of a reply are streamed.",
        "TypeScript streams the last one and loses the others.",
        "streaming.agent.two_texts_last_only",
    ),
    Divergence(
        "whole-characters",
        "agent.ts performInference",
        "Simulated chunks never cut a character in two.",
        "Halves of surrogate pairs are no text, and UTF-8 cannot carry them.",
        "streaming.agent.exact_chunk_boundaries",
    ),
    Divergence(
        "typed-errors",
        "model.ts infer",
        "Failures of a model call and missing parts of the configuration are typed errors "
        "of the library.",
        "Callers can tell them apart without reading messages.",
    ),
    Divergence(
        "processor-errors-name-the-processor",
        "processors.ts (proposal)",
        "What a processor fails with is wrapped in an error that names it and its level.",
        "With three levels nobody knows otherwise whose fault it was.",
    ),
    Divergence(
        "processors-of-the-networks-history",
        "processors.ts (proposal)",
        "Processors of the network's HistoryConfig run.",
        "The upstream branch looks only at the agent's own.",
    ),
    Divergence(
        "processor-options-are-checked",
        "processors.ts (proposal)",
        "Options that mean nothing are refused: a limit below one or broken, include and "
        "exclude together.",
        "TypeScript silently keeps nothing, or ignores one of the two.",
    ),
    Divergence(
        "summary-before-its-calls",
        "processors.ts (proposal)",
        "The filter's summary stands before the calls of its reply, for include lists as "
        "well, and results go with their calls.",
        "TypeScript puts it between a call and its result, which providers refuse.",
    ),
    Divergence(
        "call-groups-not-segments",
        "processors.ts (proposal)",
        "The limiter keeps the newest messages that fit without parting a call from its "
        "result; an unanswered call stretches over itself only.",
        "TypeScript lets an unanswered call swallow everything after it, all or nothing.",
    ),
    Divergence(
        "special-tokens-are-text",
        "processors.ts (proposal)",
        "Special tokens in a text count as the text they are.",
        "Users write them; TypeScript's run fails.",
    ),
    Divergence(
        "tiktoken-is-found",
        "processors.ts (proposal)",
        "Tokens are counted by tiktoken where it is installed.",
        "TypeScript's ES modules never find it and estimate silently.",
        "akhp vectors with a TokenLimiter",
    ),
    Divergence(
        "what-is-unchanged-stays-itself",
        "processors.ts (proposal)",
        "Messages and lists that a processor does not change stay the same objects.",
        "Token counts are kept per message, and nothing copies a history for nothing.",
    ),
    Divergence(
        "routers-get-the-user-message",
        "network.ts getNextAgents",
        "Routers always get the user's message with id and time, not only its text.",
        "TypeScript gives it only where the run was given an object, as that was.",
    ),
    Divergence(
        "run-ids-are-uuids",
        "streaming.ts generateId",
        "Ids of runs and steps are UUIDs.",
        "Time and random digits cannot be computed again on a replay.",
    ),
    Divergence(
        "checksums-without-time-zone",
        "types.ts AgentResult",
        "A result's checksum is over canonical JSON and UTC, and is no part of the export.",
        "TypeScript's depends on the machine's time zone and on the order of keys, and two "
        "results in one second collide.",
    ),
    Divergence(
        "no-steps-for-ids",
        "network.ts execute",
        "Inside Inngest ids are computed from the run's id.",
        "TypeScript spends a step on the network's ids and one on each agent's: more requests, and "
        "nothing that a replay could not compute.",
    ),
    Divergence(
        "effects-are-steps",
        "agent.ts invokeTools",
        "Inside Inngest each call of a tool or of a history adapter is a step, unless the tool "
        "says that it has steps of its own; the routing agent's calls are steps, too.",
        "TypeScript runs handlers and adapters again on each replay, with all their effects.",
    ),
    Divergence(
        "step-ids-say-where",
        "model.ts infer",
        "A step's id names the run, the agent, the turn, the inference and the call.",
        "TypeScript gives all inferences of an agent one id and a tool's steps the tool's own, so "
        "what is remembered depends on the order in which they come.",
    ),
    Divergence(
        "numbers-inside-inngest-are-exact",
        "model.ts infer",
        "Inside Inngest a reply with a whole number from 2^53 on fails the run, by name.",
        "The server keeps numbers as doubles: an id that is a little wrong would be acted on.",
    ),
    Divergence(
        "inference-steps-are-complete",
        "model.ts infer",
        "An inference step holds the request's whole body, in a format that Inngest's server "
        "knows.",
        "Python's SDK sends the body as it is; TypeScript's adds the model and its default "
        "parameters.",
    ),
    Divergence(
        "roles-are-known",
        "types.ts TextMessage",
        "A message's role is system, user or assistant; another one is refused where the "
        "message is read, by name.",
        "TypeScript sends any role on, and only its Gemini adapter fails, in the middle of a run.",
    ),
    Divergence(
        "unknown-keys-are-dropped",
        "types.ts Message",
        "Members of a message that the library does not know, and a stop reason of null, are left "
        "out, and a run's message is the user's, whatever role it names.",
        "Messages are values with fixed fields; what you want to keep with one goes into the "
        "state.",
    ),
    Divergence(
        "rows-of-users-are-user-turns",
        "state.ts setResults",
        "Rows of the author `user` that a store returns are user turns: in the transcript, "
        "and neither results nor `last_result`.",
        "Otherwise a router that looks at the last result finds the user's own words there.",
    ),
    Divergence(
        "numbers-as-python-writes-them",
        "model.ts infer",
        "Floats in JSON texts are written as Python writes them, `1e-07`, `1.0`, and members as "
        "they came.",
        "JavaScript writes `1e-7` and `1`, and members named by numbers first: the same value in "
        "other words.",
    ),
    Divergence(
        "agents-of-routers-join",
        "network.ts getNextAgents",
        "An agent that only a router returned is one of the network's from then on: tools, "
        "stores and routing agents see it.",
        "TypeScript keeps it in a private list, and tools see a network without the agent "
        "that runs.",
        "a tool of an agent that only a router returned",
    ),
    Divergence(
        "stopped-turns-asked-nothing",
        "agent.ts run",
        "The result of a turn that on_start stopped has no prompt, history and raw.",
        "Nothing was asked. TypeScript shows the prompt from before the hook, which was never "
        "sent.",
    ),
    Divergence(
        "inputs-stay-as-they-are",
        "network.ts execute",
        "The user message that a run is given stays as it is.",
        "TypeScript turns its clientTimestamp into a Date in the caller's object.",
    ),
    Divergence(
        "every-tool-has-steps",
        "agent.ts run",
        "Inside Inngest every tool has steps, also of an agent that runs by itself or routes.",
        "TypeScript passes them to tools only in networks and streamed runs.",
    ),
    Divergence(
        "each-delta-names-its-tool",
        "agent.ts invokeTools",
        "Each piece of a call's arguments names its tool.",
        "TypeScript names it on the first only, so that a front end that missed one does not "
        "know whose it is.",
        "arguments in several pieces",
    ),
)
