"use strict";
/* The report page: legends, switches and views over the charts; bars by game; copy buttons. */

const DATA = JSON.parse(document.getElementById("data").textContent);

function switchBox(words, on, change) {
  const box = html("input", { type: "checkbox", checked: on, onchange: () => change(box.checked) });
  return html("label", { class: "switch" }, box, words);
}

function slider(words, value, change) {
  const input = html("input", { type: "range", min: 0, max: 0.95, step: 0.05, value, "aria-label": words, oninput: () => change(Number(input.value)) });
  return html("label", { class: "slider" }, words, input);
}

/* A reader's choices are kept when the page reloads itself. */
const kept = {
  read(id) { try { return JSON.parse(sessionStorage.getItem(`ebu-${id}`)) ?? {}; } catch { return {}; } },
  write(id, state) { try { sessionStorage.setItem(`ebu-${id}`, JSON.stringify(state)); } catch { /* not allowed here */ } },
};

function segments(name, words, chosen, change) {
  return html("div", { class: "segments", role: "radiogroup", "aria-label": "What to show" },
    Object.entries(words).map(([key, text]) => html("label", {},
      html("input", { type: "radio", name, value: key, checked: key === chosen, onchange: () => change(key) }), html("span", {}, text))));
}

function download(name, rows) {
  const quoted = (cell) => (/[",\n]/.test(String(cell ?? "")) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell ?? ""));
  const url = URL.createObjectURL(new Blob([rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n"], { type: "text/csv" }));
  html("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/* ---- a panel of line charts under one legend */

const CLEAR = 5; // more bands than this on top of each other show nothing

function linePanel(place, panel) {
  const methods = [...new Set(panel.charts.flatMap((chart) => Object.values(chart.views).flat().map((line) => line.method)))];
  methods.sort((a, b) => DATA.slots[a] - DATA.slots[b]);
  const state = { view: Object.keys(panel.views)[0], hidden: new Set(), interval: methods.length <= CLEAR, singles: panel.id === "beta", log: panel.log, smooth: 0, zoom: {}, slots: DATA.slots };
  if (DATA.reload) {
    const { hidden = [], ...rest } = kept.read(panel.id);
    Object.assign(state, rest, { hidden: new Set(hidden) });
    if (!(state.view in panel.views)) state.view = Object.keys(panel.views)[0];
  }
  const keep = () => DATA.reload && kept.write(panel.id, { ...state, slots: undefined, hidden: [...state.hidden] });
  const charts = panel.charts.map((chart) => new LineChart(panel, chart, state, keep));
  const draw = () => { keep(); charts.forEach((chart) => chart.draw()); };
  const lines = () => panel.charts.flatMap((chart) => (chart.views[state.view] ?? []).map((line) => [chart, line]));

  const buttons = methods.map((method) => html("button", {
    type: "button", "aria-pressed": String(!state.hidden.has(method)), title: "Hide or show; with Shift: only this one",
    onclick: (event) => {
      const others = methods.filter((other) => other !== method);
      if (event.shiftKey) state.hidden = new Set(state.hidden.size === others.length && !state.hidden.has(method) ? [] : others);
      else state.hidden.has(method) ? state.hidden.delete(method) : state.hidden.add(method);
      methods.forEach((other, i) => buttons[i].setAttribute("aria-pressed", String(!state.hidden.has(other))));
      draw();
    },
  }, swatch(DATA.slots[method]), method));

  const tools = html("div", { class: "tools" });
  if (Object.keys(panel.views).length > 1) tools.append(segments(`${panel.id}-view`, panel.views, state.view, (view) => { state.view = view; draw(); }));
  const all = panel.charts.flatMap((chart) => Object.values(chart.views).flat());
  if (panel.id !== "beta" && all.some((line) => line.low.some((low) => low !== null)))
    tools.append(switchBox(panel.band, state.interval, (on) => { state.interval = on; draw(); }));
  if (all.some((line) => line.runs.length)) tools.append(switchBox("single runs", state.singles, (on) => { state.singles = on; draw(); }));
  if (panel.can_log && charts.some((chart) => chart.positive)) tools.append(switchBox("log scale", state.log, (on) => { state.log = on; draw(); }));
  if (panel.id !== "beta" && all.some((line) => line.x.length > 4)) tools.append(slider("smoothing", state.smooth, (value) => { state.smooth = value; draw(); }));
  tools.append(html("button", {
    type: "button", class: "button", onclick: () => download(`${panel.id}.csv`, [["chart", "method", "what", panel.x, panel.y, "low", "high", "runs"],
      ...lines().flatMap(([chart, line]) => line.x.map((x, i) => [chart.title, line.method, line.what, x, line.y[i], line.low[i], line.high[i], line.n[i]]))]),
  }, "CSV"));
  tools.append(html("div", { class: "legend", role: "group", "aria-label": "Methods shown" }, buttons));
  place.replaceChildren(tools, html("div", { class: "charts" }, charts.map((chart) => chart.figure)));
  draw();
}

/* ---- bars by game */

class GameBars {
  constructor(place, panel) {
    Object.assign(this, { panel, view: Object.keys(panel.views)[0], squeeze: true });
    this.words = html("p", { class: "soft small" });
    this.plot = html("div", { class: "plot" });
    const choose = html("select", { "aria-label": "Which comparison", onchange: () => { this.view = choose.value; this.draw(); } },
      Object.keys(panel.views).map((name) => html("option", { value: name }, name)));
    const save = () => download("games.csv", [["game", "relative score (%)", "score", "baseline"], ...panel.views[this.view].rows]);
    const tools = html("div", { class: "tools" }, choose, switchBox("compress large values", true, (on) => { this.squeeze = on; this.draw(); }),
      html("button", { type: "button", class: "button", onclick: save }, "CSV"));
    place.replaceChildren(tools, this.words, this.plot);
    new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
    this.draw();
  }

  draw() {
    const { rows, words } = this.panel.views[this.view];
    this.width = this.plot.clientWidth;
    if (!this.width) return;
    this.words.textContent = words;
    const tall = 22, top = 24, height = top + rows.length * tall + 8;
    const left = Math.max(...rows.map(([game]) => game.length)) * 6.9 + 8, right = this.width - 62;
    // Signed logarithm, straight within ±10 %: a factor of 4,000 and a gain of 4 % fit on one axis.
    const bend = (value) => (this.squeeze ? Math.asinh(value / 10) : value);
    const values = rows.map(([, gain]) => gain);
    const low = Math.min(0, ...values), high = Math.max(0, ...values);
    const place = linear(bend(low), bend(high), left + (low < 0 ? 58 : 0), right);
    const x = (value) => place(bend(value));
    const ticks = this.squeeze ? [-1000, -100, -10, 0, 10, 100, 1000, 10000].filter((tick) => tick >= low && tick <= high) : niceTicks(low, high, Math.max(2, (right - left) / 90));
    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${height}`, height, role: "img", "aria-label": `${this.view}. ${words} The table below has the numbers.` });
    for (const tick of ticks)
      picture.append(svg("line", { class: tick ? "grid" : "axis", x1: x(tick), x2: x(tick), y1: top - 4, y2: height - 8 }),
        svg("text", { x: x(tick), y: 12, "text-anchor": "middle" }, `${compact(tick)} %`));
    rows.forEach(([game, gain, score, baseline], i) => {
      const y = top + i * tall, from = Math.min(x(0), x(gain)), to = Math.max(x(0), x(gain));
      picture.append(svg("g", { class: "row" }, svg("title", {}, `${game}: ${precise(score)} against ${precise(baseline)}`),
        svg("rect", { x: 0, y, width: this.width, height: tall, fill: "transparent" }),
        svg("text", { class: "label", x: left - 8, y: y + 15, "text-anchor": "end" }, game),
        svg("rect", { class: "bar", x: from, y: y + 4, width: Math.max(1.5, to - from), height: tall - 8, fill: gain < 0 ? "var(--c1)" : "var(--c0)" }),
        svg("text", { x: gain < 0 ? from - 5 : to + 5, y: y + 15, "text-anchor": gain < 0 ? "end" : "start" }, `${gain > 0 ? "+" : ""}${precise(Number(gain.toFixed(1)) || 0)} %`)));
    });
    this.plot.replaceChildren(picture);
  }
}

for (const place of document.querySelectorAll("[data-panel]")) {
  const panel = DATA.panels[place.dataset.panel];
  if (panel.charts) linePanel(place, panel);
  else new GameBars(place, panel);
}

for (const button of document.querySelectorAll("[data-copy]"))
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    try { await navigator.clipboard.writeText(code.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(code); button.textContent = "Selected"; }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });

/* `ebu report --watch` writes the page again while runs go on. */
if (DATA.reload) {
  const next = () => (document.hidden || document.querySelector(".tip:not([hidden])") ? setTimeout(next, 1000) : location.reload());
  setTimeout(next, 1000 * DATA.reload);
}
