// Asking the server. All of it is on this machine, under /dev-api.

async function ask(path, body) {
  const options = body === undefined
    ? {}
    : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(`/dev-api/${path}`, options);
  } catch {
    throw new Error("The server does not answer.");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error ?? `The server answered with ${answer.status}.`);
  return found;
}

const part = encodeURIComponent;
const callPath = (run, call) => `runs/${part(run)}/calls/${call}`;

export const getTarget = () => ask("target");
export const getThreads = () => ask("threads");
export const getThread = (thread) => ask(`threads/${part(thread)}`);
export const getNews = (thread, after) => ask(`threads/${part(thread)}?after=${after}`);
export const getCall = (run, call, thread) => ask(`${callPath(run, call)}?thread=${part(thread ?? "")}`);
export const getCase = (run, call) => ask(`${callPath(run, call)}/case`);
export const start = (text, thread) => ask("runs", { text, thread });
export const cancel = (run) => ask(`runs/${part(run)}/cancel`, {});
export const look = (run, call, edit) => ask(`${callPath(run, call)}/look`, edit);
export const again = (run, call, edit) => ask(`${callPath(run, call)}/again`, edit);
export const decide = (request, answer, thread) => ask(`approvals/${part(request)}?thread=${part(thread ?? "")}`, answer);

/** The events of a thread, as they happen; the browser connects again by itself. */
export function follow(thread, after, { onHello, onEvent, onLost }) {
  const source = new EventSource(`/dev-api/events?thread=${part(thread)}&after=${after}`);
  source.addEventListener("hello", (message) => onHello(JSON.parse(message.data).boot));
  source.addEventListener("message", (message) => onEvent(JSON.parse(message.data)));
  source.addEventListener("error", () => onLost());
  return source;
}
