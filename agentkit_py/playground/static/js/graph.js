// The graph of a run: who passed the work to whom, and which tools each agent used.

import { h, svg } from "./dom.js";
import { agentName } from "./format.js";
import { handedTo, state } from "./store.js";

const YOU = "";
const WIDTH = 400;
const BOX = { left: 62, width: 148, height: 26 };
const LINE = 19; // of a tool
const GAP = 22;
const KINDS = { asks: "asks", hands: "hands over to", routes: "then the router chooses", answers: "answers" };

/** The graph with the same in words, for everybody who does not see it. */
export function graph(run, pick) {
  const steps = stepsOf(run);
  if (!steps.length) return null;
  const rest = (state.target?.agents ?? []).map((agent) => agent.name).filter((name) => !steps.some((step) => step.to === name));
  return h("details.graph", { open: true, data: { key: "graph" } }, h("summary", "Graph of this run"),
    drawing(steps, toolsOf(run)),
    h("ol.path", { "aria-label": "Steps of this run" }, steps.map((step) => h("li", words(step),
      step.call ? h("button.link", { type: "button", data: { key: `step-${run.id}-${step.runId}` }, onclick: () => pick(run.id, step.call, true) }, `call ${step.call}`) : null))),
    rest.length ? h("p.muted", `Not in this run: ${rest.join(", ")}`) : null);
}

/** Who passed the work to whom, in order: an agent's turn is a step. */
function stepsOf(run) {
  const turns = [...run.agents.values()].filter((agent) => agent.scope !== "network");
  const tools = [...run.tools.values()];
  const calls = [...run.calls.values()];
  const last = new Map(); // of each parent, its latest turn
  return turns.map((turn) => {
    const before = last.get(turn.parent);
    last.set(turn.parent, turn);
    const by = run.agents.get(turn.parent);
    const step = { runId: turn.runId, to: turn.name, call: calls.find((call) => call.runId === turn.runId)?.call };
    if (by && by.scope !== "network") return { ...step, from: by.name, kind: "asks" };
    if (!before) return { ...step, from: YOU, kind: "asks" };
    const hands = tools.some((tool) => tool.runId === before.runId && handedTo(tool.call) === turn.name);
    return { ...step, from: before.name, kind: hands ? "hands" : "routes" };
  });
}

/** The tools that each agent used, with how often; handovers are steps. */
function toolsOf(run) {
  const used = new Map();
  for (const { agent, call, result } of run.tools.values()) {
    if (handedTo(call)) continue;
    const own = used.get(agent) ?? new Map();
    const known = own.get(call.name) ?? { times: 0, bad: false };
    own.set(call.name, { times: known.times + 1, bad: known.bad || Boolean(result?.isError) });
    used.set(agent, own);
  }
  return used;
}

function words({ from, to, kind }) {
  const first = from === YOU ? "You" : agentName(from);
  if (kind === "routes") return from === to ? [first, " goes on "] : ["After ", first, ", the router chooses ", agentName(to), " "];
  return [first, ` ${from === YOU ? "ask" : KINDS[kind]} `, agentName(to), " "];
}

function drawing(steps, tools) {
  const names = [YOU, ...new Set(steps.flatMap((step) => [step.from, step.to]).filter(Boolean))];
  const places = new Map();
  let top = 4;
  for (const name of names) {
    const height = Math.max(BOX.height, (tools.get(name)?.size ?? 0) * LINE);
    places.set(name, top + height / 2);
    top += height + GAP;
  }
  const said = steps.map((step, index) => `${index + 1}: ${step.from || "you"} ${KINDS[step.kind]} ${step.to}`).join("; ");
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${top - GAP + 6}`, role: "img", "aria-label": `Graph. ${said}` },
    svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0 L8 4 L0 8 z" }))),
    [...edgesOf(steps)].map(([, edge]) => arrow(edge, places)),
    names.map((name) => node(name, places.get(name), tools.get(name))));
}

/** Steps between the same two are one arrow with their numbers. */
function edgesOf(steps) {
  const edges = new Map();
  steps.forEach(({ from, to, kind }, index) => {
    if (from === to) return;
    const key = JSON.stringify([from, to, kind]);
    const known = edges.get(key) ?? { from, to, kind, numbers: [] };
    known.numbers.push(index + 1);
    edges.set(key, known);
  });
  return edges;
}

/** Down on the left of the boxes; from one to the next, straight. Back up, further out. */
function arrow({ from, to, kind, numbers }, places) {
  const [begin, end] = [places.get(from), places.get(to)];
  const up = end < begin;
  const shift = up ? 6 : -6; // the two directions do not touch
  const bow = Math.min(BOX.left - 14, 12 + Math.abs(end - begin) / (up ? 4 : 8));
  const x = BOX.left;
  const path = `M${x} ${begin + shift} C${x - bow * 1.3} ${begin + shift} ${x - bow * 1.3} ${end + shift} ${x} ${end + shift}`;
  const text = numbers.length > 3 ? `${numbers.slice(0, 2).join(",")}…` : numbers.join(",");
  const middle = (begin + end) / 2 + shift;
  return svg("g", { class: `edge ${kind}` }, svg("path", { d: path }),
    svg("circle", { cx: x - bow, cy: middle, r: 6 + 2 * text.length }), svg("text", { x: x - bow, y: middle }, text));
}

const short = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function node(name, y, tools) {
  const right = BOX.left + BOX.width;
  const list = [...(tools ?? [])];
  const lines = list.map(([tool, { times, bad }], index) => {
    const at = y + (index - (list.length - 1) / 2) * LINE;
    const label = `${short(tool, 20)}${times > 1 ? ` ×${times}` : ""}`;
    return svg("g", { class: `used${bad ? " bad" : ""}` }, svg("title", {}, tool),
      svg("line", { x1: right, y1: y, x2: right + 22, y2: at }), svg("text", { x: right + 26, y: at }, label));
  });
  const box = svg("g", { class: `node${name === YOU ? " person" : ""}` }, svg("title", {}, name || "You"),
    svg("rect", { x: BOX.left, y: y - BOX.height / 2, width: BOX.width, height: BOX.height, rx: 6 }),
    svg("text", { x: BOX.left + BOX.width / 2, y }, short(name || "You", 20)));
  return [lines, box];
}
