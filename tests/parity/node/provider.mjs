// The fake server of all providers: answers by the script, and keeps each request.

import http from "node:http";

const OF_INTEREST = [
  "content-type",
  "authorization",
  "x-api-key",
  "api-key",
  "anthropic-version",
  "anthropic-beta",
  "x-goog-api-key",
];
const TRANSPORT = new Set([
  "host",
  "connection",
  "content-length",
  "accept",
  "accept-language",
  "sec-fetch-mode",
  "user-agent",
  "accept-encoding",
  "transfer-encoding",
]);

/** A reply that ends a turn, by the format of the request. */
export const CLOSING = {
  chat: {
    id: "chatcmpl-9",
    object: "chat.completion",
    created: 1700000000,
    model: "m",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "closing", refusal: null },
        finish_reason: "stop",
      },
    ],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
  },
  anthropic: {
    id: "msg_9",
    type: "message",
    role: "assistant",
    model: "claude",
    content: [{ type: "text", text: "closing" }],
    stop_reason: "end_turn",
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5 },
  },
  gemini: {
    candidates: [
      { content: { role: "model", parts: [{ text: "closing" }] }, finishReason: "STOP", index: 0 },
    ],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
  },
};

const formatOf = (pathname) =>
  pathname.includes(":generateContent")
    ? "gemini"
    : pathname.endsWith("/messages")
      ? "anthropic"
      : "chat";

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

/** Starts the server on a free port. */
export async function serve(closing) {
  const provider = {
    begin(world, most) {
      Object.assign(provider, { world, most, used: [], exceeded: false });
      provider.waiting = world.spec.llm.slice();
    },
    /** The next reply of the script; without one a closing reply in the request's format. */
    take(format) {
      const reply = provider.waiting.shift() ?? { json: closing[format] ?? closing.chat };
      provider.used.push(reply);
      provider.exceeded ||= provider.used.length > provider.most;
      if (provider.exceeded) throw new Error(`more than ${provider.most} requests`);
      return reply;
    },
  };
  const server = http.createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", () => answer(provider, request, response, Buffer.concat(chunks)));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  provider.base = `http://127.0.0.1:${server.address().port}`;
  return provider;
}

/** The next reply; a run that asks too often loses its connection, and the others are recorded. */
function taken(provider, format) {
  try {
    if (!provider.exceeded) return provider.take(format);
  } catch (error) {
    if (!provider.exceeded) throw error;
  }
  return { disconnect: true };
}

function answer(provider, request, response, content) {
  const url = new URL(provider.base + request.url);
  const { world } = provider;
  const sent = request.headers;
  world.note(`llm:${world.requests.length}`);
  world.requests.push({
    run: world.run,
    method: request.method,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: Object.fromEntries(OF_INTEREST.filter((n) => n in sent).map((n) => [n, sent[n]])),
    headerNames: Object.keys(sent)
      .filter((name) => !TRANSPORT.has(name))
      .sort(),
    body: parsed(content.toString("utf8")),
  });
  const reply = taken(provider, formatOf(url.pathname));
  if (reply.disconnect) {
    request.socket.destroy();
    return;
  }
  response.statusCode = reply.status ?? 200;
  response.setHeader("content-type", reply.contentType ?? "application/json");
  response.end("json" in reply ? JSON.stringify(reply.json) : (reply.text ?? ""));
}
