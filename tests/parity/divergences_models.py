"""Deliberate differences in what is sent to providers and read from them."""

from __future__ import annotations

from .divergence import Divergence

MODELS: tuple[Divergence, ...] = (
    Divergence(
        "http-status-counts",
        "model.ts infer",
        "An HTTP status other than 200 to 299 is an error.",
        "TypeScript takes a 500 without `error` in its JSON for an empty reply, and a 301 that "
        "leads nowhere for the reply that its JSON is.",
    ),
    Divergence(
        "answers-are-checked",
        "openai.ts responseParser",
        "An answer that is not what the API promises is an error.",
        "Otherwise it is an empty reply, and nobody learns why.",
    ),
    Divergence(
        "refusals-are-text",
        "openai.ts responseParser",
        "A refusal is the assistant's text.",
        "The user has a right to it; TypeScript drops it.",
    ),
    Divergence(
        "calls-go-on-whatever-the-finish-reason",
        "openai.ts responseParser",
        "A reply with tool calls has the stop reason `tool`, whatever the finish reason says.",
        "Compatible servers send `stop`, null and others with calls, and TypeScript then "
        "ends the loop.",
    ),
    Divergence(
        "replies-say-why-they-ended",
        "openai.ts responseParser",
        "A text whose reply was cut or is a refusal has the reason as its stop reason: `length`, "
        "`content_filter`, `refusal`, `pause`, or `other` where the provider's word is unknown.",
        "TypeScript says `stop`, so half an answer looks like a whole one.",
    ),
    Divergence(
        "calls-of-cut-replies",
        "openai.ts responseParser",
        "A call from a reply that was cut is not run; the model reads that.",
        "Its arguments may be incomplete, and `{}` runs a tool with its defaults.",
    ),
    Divergence(
        "custom-calls-are-calls",
        "openai.ts responseParser",
        "A call of a tool that OpenAI defines (`custom`) runs the tool that it names, and its text "
        "is the argument `input`.",
        "TypeScript looks for its `function` and fails with a TypeError.",
    ),
    Divergence(
        "older-calls-are-calls",
        "openai.ts responseParser",
        "A call in the older form (`function_call`) runs the tool that it names.",
        "TypeScript takes the end of such a reply for a call's, and drops the call.",
        "fresh:blocks",
    ),
    Divergence(
        "hosts-get-their-reasoning",
        "@inngest/ai deepseek",
        "What DeepSeek has thought goes back to it, with every call at least an empty text.",
        "It refuses calls that come back without `reasoning_content`; TypeScript sends none.",
        "fresh:hosts",
    ),
    Divergence(
        "no-function-key",
        "openai.ts responseParser",
        "A tool call has `name`, not also `function`.",
        "The same text twice in each stored call.",
    ),
    Divergence(
        "no-empty-authorization",
        "@inngest/ai openai",
        "Without an API key no authorization header is sent.",
        "`Bearer` without a token is no header.",
    ),
    Divergence(
        "grok-authorization",
        "@inngest/ai grok",
        "Grok gets its Authorization header.",
        "TypeScript sends none outside Inngest, so every call is refused.",
    ),
    Divergence(
        "no-empty-tool-list",
        "grok.ts requestParser",
        "Grok gets no list of tools where there are none.",
        "xAI refuses an empty list.",
    ),
    Divergence(
        "defaults-without-tools",
        "@inngest/ai onCall",
        "tool_choice and parallel_tool_calls in the default parameters are left out for agents"
        " without tools.",
        "Providers refuse it there.",
        "agent.*.default_parameters without tools",
    ),
    Divergence(
        "o-series-by-name",
        "openai.ts requestParser",
        "parallel_tool_calls is left out for the o-series by its name: o1, o3, o4, also in "
        "capitals and inside longer names.",
        "TypeScript looks for `o1` and `o3` anywhere: it misses o4-mini, and hits other names.",
    ),
    Divergence(
        "strict-where-it-can-be",
        "openai.ts requestParser",
        "`strict` is true exactly where the schema satisfies strict mode and nobody said "
        "otherwise.",
        "TypeScript drops the flag of createTool and sends it where OpenAI refuses the schema.",
    ),
    Divergence(
        "strict-schemas-are-valid",
        "openai.ts requestParser",
        "Strict schemas are what OpenAI takes: all properties required, optional ones "
        "nullable, unknown keywords left out.",
        "OpenAI refuses the request for an optional property.",
    ),
    Divergence(
        "schemas-providers-take",
        "openai.ts requestParser",
        "Schemas that a provider refuses are put into the form it takes, or refused when "
        "the request is made.",
        "TypeScript sends what zod gives, whatever the provider knows.",
    ),
    Divergence(
        "arguments-as-they-were-meant",
        "agent.ts invokeTools",
        "Null for an optional property that takes none is not given to a tool, and JSON text in"
        " place of an object without named properties is read. Arguments that are nearly right"
        " are repaired where the schema leaves one reading.",
        "Our forms of schemas ask for it: strict ones for nulls, Gemini's for the text, and models"
        " slip. TypeScript gives a tool what came.",
    ),
    Divergence(
        "schemas-describe-input",
        "openai.ts requestParser",
        "Tools are described by what they take, not by what their schema makes of it.",
        "For OpenAI and Anthropic TypeScript sends the output side: what has a default is "
        "required, and a transform fails.",
    ),
    Divergence(
        "routing-tools",
        "network.ts getDefaultRoutingAgent",
        "The default routing agent's tools have our own schemas, and its prompt names agents only.",
        "The package's texts are its own; ours come from pydantic. Its prompt holds the agents' "
        "tools as JSON, which fails for a recursive zod type.",
    ),
    Divergence(
        "anthropic-needs-no-parameters",
        "anthropic.ts requestParser",
        "max_tokens has a default.",
        "TypeScript fails with a TypeError where default parameters are left out.",
        "anthropic.no_default_parameters",
    ),
    Divergence(
        "beta-headers",
        "@inngest/ai anthropic",
        "Anthropic's beta headers are sent.",
        "TypeScript accepts and ignores them.",
    ),
    Divergence(
        "thinking-blocks",
        "anthropic.ts responseParser",
        "Thinking is kept as reasoning; blocks that nobody knows are kept, streamed as data and "
        "sent back to Claude.",
        "TypeScript fails on the first block that is neither text nor a call.",
    ),
    Divergence(
        "arguments-as-written",
        "openai.ts requestParser",
        "A call's arguments go back as the text that the model wrote.",
        "Whoever signs or caches a beginning compares it; TypeScript writes the JSON anew.",
        "calls whose arguments are written with spaces",
    ),
    Divergence(
        "chat-replies-are-whole",
        "openai.ts requestParser",
        "In the chat format a text and the calls that came with it are one message, as they came.",
        "A reply goes back as the provider sent it; TypeScript makes two messages of it.",
    ),
    Divergence(
        "anthropic-turns-alternate",
        "anthropic.ts requestParser",
        "What comes from one side in a row is one turn.",
        "Anthropic wants all results of a turn together, right after their calls.",
    ),
    Divergence(
        "anthropic-array-text",
        "anthropic.ts requestParser",
        "Texts in parts are sent as parts.",
        "TypeScript wraps each part in another one, which Anthropic refuses.",
        "agent.anthropic.history_all_types",
    ),
    Divergence(
        "anthropic-failed-results",
        "anthropic.ts requestParser",
        "Claude is told that a call failed.",
        "Its results have a field for it, `is_error`, which TypeScript does not set.",
    ),
    Divergence(
        "forced-choices-where-taken",
        "anthropic.ts toolChoice",
        "Models that refuse a forced tool choice, and of no known version, are asked in words.",
        "Claude that thinks refuses the request; TypeScript knows no such models.",
    ),
    Divergence(
        "anthropic-strict-tools",
        "anthropic.ts requestParser",
        "Claude from 4.5 on gets strict tools, in the form that it takes, where a tool asks for it "
        "or a call is asked for in words.",
        "TypeScript never asks for it, and words do not force the arguments.",
    ),
    Divergence(
        "anthropic-signed-texts",
        "anthropic.ts requestParser",
        "Models that sign their thinking, are asked to think or are of no known version get their "
        "texts as blocks.",
        "Their form must stay where thinking is left out; TypeScript knows no such models.",
    ),
    Divergence(
        "anthropic-prefill",
        "anthropic.ts requestParser",
        "The agent's prefill stays the assistant's.",
        "TypeScript sends it as if the user had said it.",
    ),
    Divergence(
        "anthropic-closing-text",
        "anthropic.ts requestParser",
        "A user turn that says who wrote it follows an assistant's closing text, and stays there.",
        "TypeScript sends it as the user's own words.",
    ),
    Divergence(
        "anthropic-all-system-messages",
        "anthropic.ts requestParser",
        "All system messages are sent.",
        "TypeScript sends the first one only.",
        "agent.anthropic.history_all_types",
    ),
    Divergence(
        "gemini-key-in-header",
        "@inngest/ai gemini",
        "Gemini's key is sent in a header.",
        "URLs end up in logs.",
    ),
    Divergence(
        "gemini-tool-config",
        "gemini.ts requestParser",
        "It is called toolConfig.",
        "The rest of the request is camelCase, and Google's documentation says so.",
    ),
    Divergence(
        "gemini-system-instruction",
        "gemini.ts messageToContent",
        "The system prompt is the system instruction.",
        "TypeScript sends it as the user's words.",
    ),
    Divergence(
        "gemini-prefill",
        "gemini.ts messageToContent",
        "The agent's prefill goes into the system instruction, in words.",
        "Gemini takes a closing model turn for the end of the conversation.",
    ),
    Divergence(
        "gemini-all-calls-of-a-message",
        "gemini.ts messageToContent",
        "All calls of a message are sent, and a message of none is left out.",
        "TypeScript sends the first, or fails.",
    ),
    Divergence(
        "gemini-closing-text",
        "gemini.ts requestParser",
        "A user turn that says who wrote it follows an assistant's closing text, and stays there.",
        "Gemini would take it for its own, finished answer.",
        "agent.gemini.history_last_assistant",
    ),
    Divergence(
        "gemini-turns-alternate",
        "gemini.ts requestParser",
        "What comes from one side in a row is one turn.",
        "Gemini wants turns to alternate, and as many responses as calls.",
    ),
    Divergence(
        "gemini-call-ids",
        "gemini.ts responseParser",
        "Each call has an id of its own.",
        "TypeScript calls it like the function, so two calls of one function cannot be told apart.",
    ),
    Divergence(
        "gemini-signatures",
        "gemini.ts messageToContent",
        "What Gemini has signed goes back with its signature, and Gemini 3 gets Google's "
        "placeholder for calls that have none.",
        "TypeScript drops signatures, and Gemini 3 refuses calls without one.",
    ),
    Divergence(
        "gemini-texts-stop",
        "gemini.ts responseParser",
        "A text has a stop reason.",
        "TypeScript gives none, so an agent with tools asks again until its limit.",
    ),
    Divergence(
        "unknown-parts",
        "gemini.ts responseParser",
        "Parts that nobody knows are kept, streamed as data and sent back, and a missing role is "
        "the model's.",
        "TypeScript fails the run.",
    ),
    Divergence(
        "numbers-keep-their-digits",
        "openai.ts safeParseOpenAIJson",
        "Whole numbers in arguments keep all their digits; a number too large for a float "
        "makes the arguments malformed, which the model reads.",
        "TypeScript reads every number as a double: ids of nineteen digits change without a "
        "word, and `1e400` is infinite.",
    ),
    Divergence(
        "text-in-parts",
        "openai.ts responseParser",
        "A reply's text may come in parts.",
        "Some compatible servers send it so; TypeScript fails with a TypeError.",
    ),
    Divergence(
        "gemini-tools-without-arguments",
        "gemini.ts requestParser",
        "A tool without arguments is declared to Gemini without `parameters`.",
        "TypeScript sends an object without properties, which Gemini refuses.",
    ),
    Divergence(
        "replies-are-the-models",
        "gemini.ts responseParser",
        "A reply is the model's, whatever role a candidate names; a function's response in it "
        "is left out.",
        "TypeScript takes the text for the user's, and makes a tool result of a tool that "
        "nobody called.",
    ),
    Divergence(
        "errors-without-type",
        "anthropic.ts responseParser",
        "An answer of Claude's with an error is one, also where its type does not say so.",
        "Gateways send errors in OpenAI's form; TypeScript takes them for an empty reply.",
        "an error in OpenAI's form for Claude",
    ),
    Divergence(
        "empty-parts-are-left-out",
        "openai.ts requestParser",
        "Empty parts of a text in parts, and empty descriptions, are not sent.",
        "Providers refuse them.",
    ),
    Divergence(
        "addresses-are-folders",
        "@inngest/ai openai",
        "Slashes at the end of a base_url or endpoint do not count, and a Gemini model's name with "
        "slashes is a path of its own: `models/gemini-3-pro`.",
        "TypeScript doubles them, puts `models/` before any name, and drops an Azure endpoint's "
        "path where it ends without one.",
    ),
    Divergence(
        "no-empty-thinking-config",
        "@inngest/ai gemini",
        "Gemini's generationConfig is sent as it was given.",
        "TypeScript adds an empty thinkingConfig to it.",
    ),
    Divergence(
        "thoughts-are-reasoning",
        "gemini.ts responseParser",
        "A model's thoughts are reasoning.",
        "TypeScript takes Gemini's for text and shows them to the user as part of the answer; those"
        " of hosts that speak OpenAI's format (`reasoning_content`) are lost.",
    ),
    Divergence(
        "images-in-results",
        "openai.ts requestParser",
        "An image or file in a tool's result is named in words where the format takes text alone, "
        "and shown to the models that see images there.",
        "TypeScript sends its base64 as a part of the result's JSON: thousands of tokens that no "
        "model can read.",
    ),
    Divergence(
        "blanks-before-calls-stay",
        "openai.ts responseParser",
        "A text of blanks that a reply has beside its calls stays.",
        "A request says again what the reply said; TypeScript drops it.",
        "a reply of calls and a line feed",
    ),
    Divergence(
        "blocks-go-back-whole",
        "anthropic.ts responseParser",
        "A block of Claude's with more members, such as a text's citations or who calls a tool, "
        "goes back as it came.",
        "TypeScript keeps text, name and arguments alone: what it cited, Claude no longer knows.",
    ),
    Divergence(
        "halves-are-not-sent",
        "model.ts infer",
        "Halves of surrogate pairs in texts are sent as question marks.",
        "Providers refuse a request that holds one.",
        "an input that was cut inside an emoji",
    ),
    Divergence(
        "keys-are-checked",
        "@inngest/ai openai",
        "A key that is empty, or that no HTTP header can carry, is refused when the model is made.",
        "TypeScript takes an empty one for none, and sends any other.",
        "a model with an empty key",
    ),
    Divergence(
        "addresses-are-checked",
        "@inngest/ai openai",
        "A base_url with a query or fragment, and a model name for Gemini that cannot stand "
        "in a URL, are refused when the model is made.",
        "TypeScript drops the query without a word and encodes any name, and the host answers 404.",
    ),
    Divergence(
        "long-requests-are-marked",
        "anthropic.ts requestParser",
        "Long requests to Claude mark what its cache may keep.",
        "A conversation costs a tenth where it is read again; TypeScript marks nothing.",
        "anthropic.cache_marks, which marks nothing in the mode of TypeScript",
    ),
    Divergence(
        "tools-where-they-are-taken",
        "@inngest/ai openai",
        "OpenAI's models that take no tools in chat completions are asked in the Responses API.",
        "TypeScript asks for chat completions, and the host refuses the request.",
    ),
    Divergence(
        "sampling-where-it-is-taken",
        "@inngest/ai onCall",
        "Parameters of sampling are left out for models that reason, which refuse them, and "
        "thinking where Claude refuses a request that asks for it.",
        "TypeScript sends the default parameters as they are, and every request is refused.",
        "o4-mini with a temperature",
    ),
    Divergence(
        "paused-replies-are-continued",
        "anthropic.ts responseParser",
        "A reply that Claude has paused (`pause_turn`) is continued, ten times at the most.",
        "It says so where the tools that it runs itself take long; TypeScript ends the turn.",
        "fresh:blocks",
    ),
    Divergence(
        "empty-replies-are-continued",
        "gemini.ts responseParser",
        "A reply of Gemini's that says nothing after a tool's result is continued, three times at "
        "the most.",
        "Gemini ends replies so now and then; TypeScript ends the turn without an answer.",
    ),
)
