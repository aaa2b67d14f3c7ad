// The common form of a recording: undefined members listed, ids numbered by first occurrence.

const FIRST = ["runId", "parentRunId", "messageId", "partId", "threadId"];
const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}";
const ID = new RegExp(
  `\\b(?:tool|text)_[0-9a-f]{8}_\\d{8}_[a-z0-9]+|${UUID}|\\b\\d{13}_[a-z0-9]{5,}`,
  "g",
);

/** The document with `undefinedPaths`, and with `<uuid:n>`, `<gen:n>` and `<part:n>` for its ids. */
export function normalised(document) {
  const undefinedPaths = [];
  const whole = withoutUndefined(document, "", undefinedPaths);
  const rename = renamer();
  for (const { data } of whole.events)
    for (const key of FIRST) if (key in data) rename(data[key]);
  const early = ["events", "historyLog", "runs"];
  const renamed = {};
  for (const key of [...early, ...Object.keys(whole)]) renamed[key] ??= rename(whole[key]);
  return { ...Object.fromEntries(Object.keys(whole).map((k) => [k, renamed[k]])), undefinedPaths };
}

// A stack that the engine wrote: it names files of this machine. Those of scenarios are made up.
const WRITTEN = /\n {4}at .*(?:file:|node:)/;
const STACK = /"stack":"(?:[^"\\]|\\.)*?\\n {4}at (?:[^"\\]|\\.)*?(?:file:|node:)(?:[^"\\]|\\.)*"/g;
const withoutStack = (text) => text.replace(STACK, '"stack":"<stack>"');

function withoutUndefined(value, pointer, found) {
  if (typeof value === "string") return withoutStack(value);
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value))
    return value.map((item, index) =>
      item === undefined ? { $undefined: true } : withoutUndefined(item, `${pointer}/${index}`, found),
    );
  const kept = {};
  for (const [key, item] of Object.entries(value)) {
    if (key === "stack" && WRITTEN.test(item)) {
      kept[key] = "<stack>";
      continue;
    }
    const at = `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (item === undefined) found.push(at);
    else kept[key] = withoutUndefined(item, at, found);
  }
  return kept;
}

function renamer() {
  const names = new Map();
  const counts = { uuid: 0, gen: 0, part: 0 };
  const nameOf = (id) => {
    if (!names.has(id)) {
      const kind = /^(tool|text)_/.test(id) ? "part" : id.includes("-") ? "uuid" : "gen";
      counts[kind] += 1;
      names.set(id, `<${kind}:${counts[kind]}>`);
    }
    return names.get(id);
  };
  const rename = (value) => {
    if (typeof value === "string") return value.replace(ID, nameOf);
    if (Array.isArray(value)) return value.map(rename);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, rename(item)]));
  };
  return rename;
}
