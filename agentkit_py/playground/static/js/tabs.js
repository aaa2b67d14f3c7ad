// Which pane is shown. A wide page shows threads and chat beside one of the others.

import { h, byId } from "./dom.js";

const PANES = [["threads", "Threads"], ["chat", "Chat"], ["run", "Run"], ["call", "Call"], ["state", "State"], ["network", "Setup"]];
const BESIDE = { threads: matchMedia("(min-width: 1180px)"), chat: matchMedia("(min-width: 760px)") };

export const NAMES = PANES.map(([name]) => name);

let changed = () => {};

export function setUp(onChange) {
  changed = onChange;
  const list = byId("tabs");
  for (const [name, title] of PANES) {
    list.append(h("button", {
      type: "button",
      role: "tab",
      id: `tab-${name}`,
      "aria-controls": `pane-${name}`,
      onclick: () => show(name),
    }, title));
  }
  list.addEventListener("keydown", move);
  for (const query of Object.values(BESIDE)) query.addEventListener("change", refresh);
  refresh();
}

export function show(name) {
  document.body.dataset.pane = name;
  if (!(name in BESIDE)) document.body.dataset.inspector = name;
  refresh();
}

function selected() {
  const { pane, inspector } = document.body.dataset;
  return BESIDE[pane]?.matches ? inspector : pane;
}

function refresh() {
  const current = selected();
  for (const name of NAMES) {
    const tab = byId(`tab-${name}`);
    const beside = Boolean(BESIDE[name]?.matches);
    tab.hidden = beside;
    tab.setAttribute("aria-selected", String(name === current));
    tab.tabIndex = name === current ? 0 : -1;
    byId(`pane-${name}`).hidden = !beside && name !== current;
  }
  changed();
}

function move(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  const shown = NAMES.filter((name) => !byId(`tab-${name}`).hidden);
  const now = shown.indexOf(selected());
  let next = null;
  if (event.key in steps) next = (now + steps[event.key] + shown.length) % shown.length;
  if (event.key === "Home") next = 0;
  if (event.key === "End") next = shown.length - 1;
  if (next === null) return;
  event.preventDefault();
  show(shown[next]);
  byId(`tab-${shown[next]}`).focus();
}
