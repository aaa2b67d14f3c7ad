// The keyboard: shortcuts, sending, help, and the choice of light or dark.

import { byId } from "./dom.js";
import * as tabs from "./tabs.js";

const SINGLE = "agentkit.singleKeys";
const THEME = "agentkit.theme";

export function setUp(actions, send) {
  const composer = byId("composer");
  composer.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
    if (event.key === "Escape") composer.blur();
  });
  const single = byId("single-keys");
  single.checked = localStorage.getItem(SINGLE) !== "off";
  single.addEventListener("change", () => localStorage.setItem(SINGLE, single.checked ? "on" : "off"));
  byId("theme").addEventListener("click", changeTheme);
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  const keys = {
    "/": () => { tabs.show("chat"); composer.focus(); },
    "?": () => byId("help").showModal(),
    j: () => actions.step(1),
    k: () => actions.step(-1),
    e: () => actions.edit(),
    n: () => { actions.fresh(); tabs.show("chat"); composer.focus(); },
    t: changeTheme,
  };
  tabs.NAMES.forEach((name, index) => { keys[index + 1] = () => tabs.show(name); });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    const act = single.checked ? keys[event.key] : undefined;
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function changeTheme() {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const next = (root.dataset.theme ?? system) === "dark" ? "light" : "dark";
  root.dataset.theme = next;
  localStorage.setItem(THEME, next);
}
