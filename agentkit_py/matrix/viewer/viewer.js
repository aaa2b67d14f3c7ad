// The grid of a matrix: messages down, model calls across. Only rows in view are in the page. Text
// is only ever set as text, never as HTML.

const GLYPHS = { seen: "●", shortened: "◐", "as text": "T", masked: "✱", changed: "~", "left out": "–", added: "+" };
const WORDS = {
  seen: "sent as it is",
  shortened: "sent, shortened",
  "as text": "sent as a text",
  masked: "sent, masked",
  changed: "sent, changed",
  "left out": "left out",
  added: "made by a processor",
};
const SECTIONS = { prompt: "prompt", made: "made by a processor", thread: "thread" };
const AROUND = 12; // rows above and below the view

const byId = (id) => document.getElementById(id);
const [grid, head, body, detail] = ["grid", "head", "body", "detail"].map(byId);

function element(tag, kind, ...children) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  made.append(...children);
  return made;
}

async function load() {
  const inside = byId("data");
  if (inside) return JSON.parse(inside.textContent);
  const thread = new URL(location).searchParams.get("thread") ?? "";
  const isDesk = location.pathname.endsWith("/staff/matrix/"); // else the playground
  const path = encodeURIComponent(thread);
  const answer = await fetch(isDesk ? new URL(`../../api/takeovers/${path}/matrix`, document.baseURI) : `/dev-api/matrix/${path}`);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error?.message ?? data.error);
  return data.matrix ?? data;
}

function show(data) {
  const height = 26;
  const cells = data.cells.map((column) => new Map(column.map((cell) => [cell[0], cell])));
  const lower = data.rows.map((row) => data.texts[row.text].toLowerCase());
  let rows = data.rows.map((_, index) => index); // those that are shown
  let calls = data.calls.map((_, index) => index);
  let selected = [0, 0]; // places in rows and calls
  let drawn = new Map();

  const fateOf = (cell) => data.fates[cell[1]];
  const count = (number) => number.toLocaleString("en");

  function cellAt(row, call) {
    const made = element("div", "cell");
    made.role = "gridcell";
    made.id = `c${row}-${call}`;
    made.dataset.row = row;
    made.dataset.call = call;
    const cell = cells[call].get(row);
    if (beginsRun(call)) made.classList.add("run-begins");
    if (cell) {
      const fate = fateOf(cell);
      made.classList.add(fate.replace(" ", "-"));
      if (cell[4]) made.classList.add("cached");
      made.textContent = GLYPHS[fate];
      made.ariaLabel = `${WORDS[fate]}${cell[4] ? ", cached" : ""}`;
      made.title = `${WORDS[fate]}${data.processors[cell[2]] ? ` (${data.processors[cell[2]]})` : ""}`;
    } else made.ariaLabel = "not there yet";
    return made;
  }

  function beginsRun(call) {
    const place = calls.indexOf(call);
    return place > 0 && data.calls[calls[place - 1]].run !== data.calls[call].run;
  }

  function rowAt(place) {
    const index = rows[place];
    const row = data.rows[index];
    const who = row.section === "thread" ? row.agent ?? row.role : SECTIONS[row.section];
    const side = element(
      "div", "side",
      element("span", "who", who),
      element("span", "words", data.texts[row.text].slice(0, 200)),
      element("span", "tokens", count(row.tokens)),
    );
    side.role = "rowheader";
    side.title = `${row.type} · ${count(row.tokens)} tokens`;
    const line = element("div", "row", side, ...calls.map((call) => cellAt(index, call)));
    line.role = "row";
    line.ariaRowIndex = place + 2;
    line.style.top = `${place * height}px`;
    return line;
  }

  function draw() {
    const begin = Math.max(0, Math.floor(grid.scrollTop / height) - AROUND);
    const end = Math.min(rows.length, Math.ceil((grid.scrollTop + grid.clientHeight) / height) + AROUND);
    for (const [place, line] of drawn) {
      if (place >= begin && place < end) continue;
      line.remove();
      drawn.delete(place);
    }
    for (let place = begin; place < end; place++) {
      if (drawn.has(place)) continue;
      const line = rowAt(place);
      drawn.set(place, line);
      body.append(line);
    }
    mark();
  }

  function redraw() {
    for (const line of drawn.values()) line.remove();
    drawn = new Map();
    body.style.height = `${rows.length * height}px`;
    grid.ariaRowCount = rows.length + 1;
    grid.ariaColCount = calls.length + 1;
    drawHead();
    draw();
    const all = rows.length === data.rows.length ? "" : ` of ${count(data.rows.length)}`;
    byId("summary").textContent =
      `${count(rows.length)}${all} messages, ${count(calls.length)} model calls, `
      + `${count(calls.reduce((sum, call) => sum + data.calls[call].tokens, 0))} tokens sent`;
  }

  function drawHead() {
    const runs = element("div", "row runs", element("div", "side"));
    const names = element("div", "row names", element("div", "side"));
    const tokens = element("div", "row", element("div", "side", element("span", "words", "tokens sent")));
    runs.ariaHidden = true;
    for (const call of calls) {
      const found = data.calls[call];
      const isFirst = calls.indexOf(call) === 0 || beginsRun(call);
      const kind = beginsRun(call) ? "cell run-begins" : "cell";
      runs.append(element("div", kind, isFirst ? `#${found.run}` : ""));
      const name = element("div", kind, found.agent);
      name.role = "columnheader";
      name.dataset.head = call;
      name.title = `Model call ${call + 1} of ${found.agent}, run ${found.run}`;
      names.append(name);
      const sum = element("div", `${kind} tokens`, short(found.tokens));
      sum.title = `${count(found.tokens)} tokens, ${count(found.cachedTokens)} as before`;
      tokens.append(sum);
    }
    names.role = "row";
    head.replaceChildren(runs, names, tokens);
  }

  const short = (number) => (number < 1000 ? `${number}` : `${(number / 1000).toFixed(number < 10000 ? 1 : 0)}k`);

  function mark() {
    body.querySelector(".selected")?.classList.remove("selected");
    const [place, column] = selected;
    const found = byId(`c${rows[place]}-${calls[column]}`);
    if (!found) return;
    found.classList.add("selected");
    grid.setAttribute("aria-activedescendant", found.id);
  }

  function select(place, column) {
    if (!rows.length || !calls.length) return;
    selected = [clamp(place, rows.length), clamp(column, calls.length)];
    const top = selected[0] * height;
    const room = grid.clientHeight - head.offsetHeight - height;
    if (top < grid.scrollTop) grid.scrollTop = top;
    else if (top > grid.scrollTop + room) grid.scrollTop = top - room;
    draw();
    describeCell(rows[selected[0]], calls[selected[1]]);
  }

  const clamp = (number, length) => Math.max(0, Math.min(length - 1, number));

  function block(title, text) {
    return [element("h3", "", title), element("pre", "", text || "(empty)")];
  }

  function describeCell(row, call) {
    const message = data.rows[row];
    const cell = cells[call].get(row);
    const own = data.texts[message.text];
    const parts = [element("h2", "", `Message ${row + 1} in model call ${call + 1} (${data.calls[call].agent})`)];
    const by = cell && data.processors[cell[2]];
    const fate = cell ? WORDS[fateOf(cell)] : "The message was not there yet, or not loaded.";
    parts.push(element("p", "", by ? `${fate}, by ${by}` : fate));
    if (cell?.[4]) parts.push(element("p", "muted", "The agent's call before began with it, too: it can be read from the provider's cache."));
    if (cell?.[5].length) parts.push(element("p", "", `Made of the messages ${cell[5].map((one) => one + 1).join(", ")}.`));
    if (cell && cell[3] >= 0) parts.push(...block("Sent", data.texts[cell[3]]), ...block("In the thread", own));
    else parts.push(...block(cell && fateOf(cell) !== "left out" ? "Sent" : "In the thread", own));
    parts.push(element("p", "muted", `${message.type} of ${message.agent ?? message.role}, ${count(message.tokens)} tokens`));
    detail.replaceChildren(...parts);
  }

  function describeCall(call) {
    const found = data.calls[call];
    const cached = found.readFromCache === null ? "" : `, ${count(found.readFromCache)} read from the provider's cache`;
    detail.replaceChildren(
      element("h2", "", `Model call ${call + 1} (${found.agent}, run ${found.run})`),
      element("p", "", `${count(found.tokens)} tokens sent, the first ${count(found.cachedTokens)} as in the agent's call before${cached}.`),
      ...found.reply.flatMap((row) => block(`Reply: ${data.rows[row].type}`, data.texts[data.rows[row].text])),
    );
  }

  function filter() {
    const words = byId("find").value.trim().toLowerCase();
    const agent = byId("agent").value;
    calls = data.calls.map((_, index) => index).filter((call) => !agent || data.calls[call].agent === agent);
    rows = data.rows.map((_, index) => index).filter((row) => !words || lower[row].includes(words));
    selected = [0, 0];
    redraw();
  }

  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-20, 0], PageDown: [20, 0] };
  grid.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    const ends = { Home: [selected[0], 0], End: [selected[0], calls.length - 1] }[event.key];
    if (!move && !ends && event.key !== "Enter") return;
    event.preventDefault();
    if (event.key === "Enter") describeCall(calls[selected[1]]);
    else if (ends) select(...ends);
    else select(selected[0] + move[0], selected[1] + move[1]);
  });
  grid.addEventListener("click", ({ target }) => {
    const cell = target.closest?.("[data-row]");
    const column = target.closest?.("[data-head]");
    if (cell) select(rows.indexOf(Number(cell.dataset.row)), calls.indexOf(Number(cell.dataset.call)));
    else if (column) describeCall(Number(column.dataset.head));
  });
  grid.addEventListener("scroll", () => requestAnimationFrame(draw));
  addEventListener("resize", draw);
  byId("find").addEventListener("input", filter);
  byId("agent").addEventListener("change", filter);

  document.title = data.title ?? document.title;
  byId("title").textContent = document.title;
  byId("note").textContent = data.note;
  for (const name of new Set(data.calls.map((call) => call.agent))) {
    const option = element("option", "", name);
    option.value = name;
    byId("agent").append(option);
  }
  byId("legend").replaceChildren(
    ...data.fates.map((fate) => element("li", "", element("span", fate.replace(" ", "-"), GLYPHS[fate]), WORDS[fate])),
    element("li", "", element("span", "seen cached", "\u00a0"), "in the cached prefix"),
  );
  redraw();
}

load().then(show, (error) => (byId("summary").textContent = error.message));
