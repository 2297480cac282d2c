"use strict";
/* Plays one stored episode backward. Every number shown comes from the page's data, which the package's rules computed. */

const SCENES = JSON.parse(document.getElementById("data").textContent).scenes;
const at = (id) => document.getElementById(id);
const state = { scene: 0, start: "nothing", beta: SCENES[0].betas.length - 1, update: 1, read: 0, timer: null };

const scene = () => SCENES[state.scene];
const length = () => scene().taken.length;
function numbers(key) {
  const data = scene().starts[state.start][key], u = state.update - 1;
  const pick = (name) => (key === "ebu" ? data[name][state.beta][u] : data[name][u]);
  return { y: pick("y"), share: pick("share"), found: pick("found"), ...(key === "ebu" ? { table: pick("table"), mixed: pick("mixed") } : {}) };
}
const show = (value) => html("b", { class: "value" }, amount(value, scene().scale));
const beta = () => scene().betas[state.beta];
const signed = (value) => (value === 0 ? "nothing" : value > 0 ? `a reward of ${value.toLocaleString("en-US")}` : `a penalty of ${-value}`);
const reached = (shares) => shares.filter((share) => share >= 0.01).length;

/* A column once it has been read, and its best entry; of equals, the one of the action that was taken. */
function columnOf(ebu, t) {
  const taken = scene().taken[t + 1];
  const entries = ebu.table[t].map((value, a) => (a === taken ? ebu.mixed[t] : value));
  const top = Math.max(...entries);
  return { entries, taken, best: entries[taken] === top ? taken : entries.indexOf(top) };
}

/* ---- the four pictures */

function drawWorlds() {
  at("scene-words").textContent = scene().words + (state.update > 1 ? ` Update ${state.update}: the table has learned the targets of the update before, and the same episode is read again.` : "");
  at("worlds").replaceChildren(...METHODS.map((method) => {
    const { y, share, found } = numbers(method.key);
    const seen = share.map((value, t) => (t >= length() - state.read ? value : 0));
    const count = reached(seen), over = state.read === length();
    const verdict = !over ? ["", ""] : found === null ? ["no", "Greedy path: does not reach the goal yet"] : ["yes", `✓ Greedy path: reaches the goal in ${found} steps`];
    return html("div", { class: "world", style: `--tint:var(--c${method.slot})`, "data-method": method.key },
      html("h3", {}, method.key === "ebu" ? `EBU, β = ${beta()}` : method.name), html("p", {}, method.rule),
      drawWorld(scene(), method, state.read, share, y),
      html("div", { class: "reached" }, "Reward reached", html("b", {}, `${count} of ${length()} steps`)),
      html("div", { class: "track" }, html("i", { style: `width:${(100 * count) / length()}%` })),
      html("div", { class: `verdict ${verdict[0]}` }, verdict[1]));
  }));
}

/* ---- the words */

function drawWords() {
  const place = at("now"), last = length() - 1, k = length() - state.read, s = scene();
  const ebu = numbers("ebu"), name = (t) => s.places[s.states[t]], arrow = (t) => s.actions[s.taken[t]];
  if (state.read === 0) {
    place.replaceChildren(html("p", {}, `The episode lies in memory: ${length()} steps, the first at ${name(0)}, the last one ${signed(s.rewards[last])}. Press play to read it from its end.`),
      html("p", { class: "others" }, state.update === 1 ? (state.start === "nothing" ? "The table knows nothing yet: all its values are 0." : "The table holds random guesses, as an untrained network does.") : `The table has learned from ${state.update - 1} update${state.update > 2 ? "s" : ""} already.`));
    return;
  }
  const told = html("p", {}, `Step ${k + 1} of ${length()}: at ${name(k)} the agent went ${arrow(k)} and got ${signed(s.rewards[k])}.`);
  const story = html("ol", {});
  if (k === last) story.append(html("li", {}, "Nothing follows: the episode ended here. The target is the reward itself, ", show(ebu.y[k]), "."));
  else {
    const { entries: column, best, taken } = columnOf(ebu, k), own = best === taken;
    story.append(
      html("li", {}, `The next step (${arrow(k + 1)} at ${name(k + 1)}) has just been found to be worth `, show(ebu.y[k + 1]), ", the table said ", show(ebu.table[k][s.taken[k + 1]]), ". Mixed: ",
        `${beta()} × ${amount(ebu.y[k + 1], s.scale)} + ${Number((1 - beta()).toFixed(2))} × ${amount(ebu.table[k][s.taken[k + 1]], s.scale)} = `, show(ebu.mixed[k]), "."),
      html("li", {}, own ? `That is the best entry of the column.` : `But the table rates another action higher there: ${s.actions[best]} with `, own ? "" : show(column[best]), own ? "" : ". So what really followed does not count here."),
      html("li", {}, `Target: ${amount(s.rewards[k], s.scale)} + ${s.gamma} × ${amount(column[best], s.scale)} = `, show(ebu.y[k]), "."));
  }
  const trust = s.starts[state.start].trust[state.update - 1][k];
  const others = html("div", { class: "others" }, html("p", {}, "The others, at the same step: "), METHODS.slice(1).map((method) => html("p", {},
    html("span", { class: "dot", style: `background:var(--c${method.slot})` }), `${method.name}: `, html("b", {}, amount(numbers(method.key).y[k], s.scale)),
    method.key === "retrace" && trust !== null ? ` (trusts the move after it to ${Math.round(100 * trust)} %)` : "")));
  if (state.read === length()) {
    const counts = METHODS.map((method) => `${method.name} ${reached(numbers(method.key).share)}`).join(", ");
    others.append(html("p", {}, html("b", {}, `Update ${state.update} is over. Steps reached: ${counts}.`)));
  }
  place.replaceChildren(html("div", {}, told, html("p", {}, html("span", { class: "dot", style: "background:var(--c0)" }), "EBU:"), story), others);
}

/* ---- the sheet */

let cells = null;

function buildSheet() {
  const s = scene(), columns = [...Array(length()).keys()];
  const row = (head, cell, kind = "") => {
    const tds = columns.map((t) => html("td", { class: kind }, cell(t)));
    return [html("tr", {}, html("th", { scope: "row" }, head), tds), tds];
  };
  const part = (words) => html("tr", { class: "part" }, html("th", { colspan: length() + 1, scope: "rowgroup" }, html("span", {}, words)));
  const plain = [row("step", (t) => String(t + 1)), row(s.picture.kind === "maze" ? "row, column" : "state", (t) => s.names[s.states[t]]), row("action", (t) => s.actions[s.taken[t]]), row("reward", (t) => (s.rewards[t] ? String(s.rewards[t]) : "·"))];
  const entries = s.actions.map((action) => row(`Q̃ of ${action}`, () => "", "entry"));
  const targets = METHODS.map((method) => row(method.name, () => "", "target"));
  cells = { plain: plain.map(([, tds]) => tds), entries: entries.map(([, tds]) => tds), targets: targets.map(([, tds]) => tds) };
  const arrows = svg("svg", { class: "arrows", "aria-hidden": true });
  at("sheet").style.setProperty("--column", `${Math.max(44, Math.min(96, (at("sheet").clientWidth - 130) / length() - 4))}px`);
  at("sheet").replaceChildren(html("table", {}, html("tbody", {}, plain.map(([tr]) => tr), part("Temporary table: the next state's values"), entries.map(([tr]) => tr), part("Targets"), targets.map(([tr]) => tr))), arrows);
}

function drawSheet() {
  const s = scene(), ebu = numbers("ebu"), first = length() - state.read, last = length() - 1;
  for (let t = 0; t < length(); t++) {
    const done = t >= first && t < last, here = t === first;
    const { entries: column, best } = done ? columnOf(ebu, t) : { entries: ebu.table[t], best: -1 };
    cells.plain.forEach((tds) => tds[t].classList.toggle("now-column", here));
    cells.entries.forEach((tds, a) => {
      const next = t < last && a === s.taken[t + 1];
      tds[t].textContent = t === last ? "" : amount(column[a], s.scale);
      tds[t].className = `entry ${t === last ? "none" : ""} ${next && !done ? "next" : ""} ${next && done ? "mixed" : ""} ${a === best ? "best" : ""} ${here ? "now-column" : ""}`;
    });
    METHODS.forEach((method, m) => {
      const { y, share } = numbers(method.key), td = cells.targets[m][t];
      td.textContent = amount(y[t], s.scale);
      td.className = `target ${t < first ? "unread" : ""} ${here && m === 0 ? "fresh" : ""}`;
      td.style.background = t < first ? "" : tint(0.3 * share[t], `var(--c${method.slot})`, "var(--page)");
    });
  }
  drawArrows(first, ebu);
}

/* From the target just found to the entry it replaces, and from the best entry to the new target. */
function drawArrows(first, ebu) {
  const arrows = at("sheet").querySelector("svg.arrows");
  arrows.replaceChildren();
  const box = at("sheet");
  if (state.read >= 1) {
    const cell = cells.targets[0][first], left = cell.offsetLeft - box.clientWidth / 2;
    if (state.timer || cell.offsetLeft < box.scrollLeft + 130 || cell.offsetLeft + cell.offsetWidth > box.scrollLeft + box.clientWidth) box.scrollTo({ left, behavior: "auto" });
  } else box.scrollTo({ left: box.scrollWidth });
  if (state.read < 2) return;
  const middle = (td) => [td.offsetLeft + td.offsetWidth / 2, td.offsetTop + td.offsetHeight / 2, td.offsetWidth / 2, td.offsetHeight / 2];
  const { best, taken } = columnOf(ebu, first);
  const [fx, fy, fw, fh] = middle(cells.targets[0][first + 1]), [ex, ey, ew] = middle(cells.entries[taken][first]);
  const [bx, by, , bh] = middle(cells.entries[best][first]), [tx, ty, , th] = middle(cells.targets[0][first]);
  arrows.append(svg("defs", {}, svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8Z", style: "fill:var(--c0);stroke:none" }))),
    svg("path", { d: `M${fx} ${fy - fh + 3}C${fx} ${ey + 10} ${fx} ${ey} ${ex + ew + 1} ${ey}`, "marker-end": "url(#tip)" }),
    svg("path", { d: `M${bx - fw + 8} ${by + bh - 3}V${ty - th - 1}`, "marker-end": "url(#tip)", "stroke-dasharray": "3 3" }));
  arrows.setAttribute("width", 1); arrows.setAttribute("height", 1);
}

/* ---- how far, by update */

function drawReach() {
  const s = scene(), updates = [...Array(s.updates).keys()].map((u) => u + 1);
  const lines = METHODS.map((method) => {
    const data = s.starts[state.start][method.key];
    const y = updates.map((u) => reached(method.key === "ebu" ? data.share[state.beta][u - 1] : data.share[u - 1]));
    return { method: method.name, x: updates, y, low: y.map(() => null), high: y.map(() => null), n: y.map(() => null), runs: [], what: "", faint: false, steps: false, dots: [] };
  });
  const words = lines.map((line) => `${line.method} reaches ${line.y[0]} after the first update and ${line.y.at(-1)} after ${s.updates}.`).join(" ");
  const panel = { x: "update", y: "steps reached", marks: [[length(), "the whole episode"]], span: [0, length()] };
  const looks = { view: "all", hidden: new Set(), interval: false, singles: false, log: false, slots: Object.fromEntries(METHODS.map((method) => [method.name, method.slot])) };
  const chart = new LineChart(panel, { title: s.title, alt: words, views: { all: lines } }, looks);
  at("reach").replaceChildren(chart.figure);
  chart.draw();
}

/* ---- controls */

function draw() {
  const over = state.read === length(), more = state.update < scene().updates;
  at("position").value = state.read; at("beta").value = state.beta; at("update").value = state.update;
  at("position-value").textContent = `${state.read} of ${length()}`;
  at("beta-value").textContent = beta().toFixed(2);
  at("update-value").textContent = `${state.update} of ${scene().updates}`;
  at("beta").setAttribute("aria-valuetext", beta().toFixed(2));
  at("play").textContent = state.timer ? "Pause" : over ? (more ? "Next update" : "From the start") : "Play";
  at("step").disabled = over; at("undo").disabled = at("restart").disabled = state.read === 0;
  drawWorlds(); drawWords(); drawSheet();
}

function change(changes, alsoReach = false) {
  Object.assign(state, changes);
  draw();
  if (alsoReach) drawReach();
}

function pause() {
  clearInterval(state.timer);
  state.timer = null;
}

function play() {
  if (state.timer) { pause(); return draw(); }
  if (state.read === length()) {
    const more = state.update < scene().updates;
    Object.assign(state, { read: 0, update: more ? state.update + 1 : 1 });
  }
  state.timer = setInterval(() => {
    if (state.read < length()) state.read += 1;
    if (state.read === length()) pause();
    draw();
  }, length() > 8 ? 900 : 1600);
  draw();
}

function chooseScene(index) {
  pause();
  Object.assign(state, { scene: index, update: 1, read: 0 });
  at("position").max = length(); at("beta").max = scene().betas.length - 1; at("update").max = scene().updates;
  buildSheet(); draw(); drawReach();
}

at("scene").append(html("div", { class: "segments", role: "radiogroup", "aria-label": "Episode" }, SCENES.map((s, i) => html("label", {},
  html("input", { type: "radio", name: "scene", value: s.id, checked: i === 0, onchange: () => chooseScene(i) }), html("span", {}, s.title)))));
at("guesses").addEventListener("change", () => { pause(); change({ start: at("guesses").checked ? "guesses" : "nothing", read: 0, update: 1 }, true); });
at("play").addEventListener("click", play);
at("step").addEventListener("click", () => { pause(); change({ read: Math.min(length(), state.read + 1) }); });
at("undo").addEventListener("click", () => { pause(); change({ read: Math.max(0, state.read - 1) }); });
at("restart").addEventListener("click", () => { pause(); change({ read: 0 }); });
at("position").addEventListener("input", () => { pause(); change({ read: Number(at("position").value) }); });
at("beta").addEventListener("input", () => change({ beta: Number(at("beta").value) }, true));
at("update").addEventListener("input", () => { pause(); change({ update: Number(at("update").value) }); });
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, button, select, a, [tabindex]") || event.ctrlKey || event.altKey || event.metaKey) return;
  const keys = { " ": "play", ArrowLeft: "step", ArrowRight: "undo" };
  if (keys[event.key]) { event.preventDefault(); at(keys[event.key]).click(); }
});
for (const button of document.querySelectorAll("[data-try]"))
  button.addEventListener("click", () => {
    const { scene: index, beta: wanted, update, read, start = "nothing" } = JSON.parse(button.dataset.try);
    state.start = start; at("guesses").checked = start === "guesses";
    chooseScene(index);
    document.querySelector(`input[name=scene][value=${SCENES[index].id}]`).checked = true;
    change({ beta: scene().betas.indexOf(wanted), update, read: Math.min(read, length()) }, true);
    at("worlds-title").scrollIntoView({ block: "nearest" });
  });
let width = 0;
new ResizeObserver(() => { if (at("sheet").clientWidth !== width) { width = at("sheet").clientWidth; buildSheet(); drawSheet(); } }).observe(at("sheet"));
chooseScene(0);
