"use strict";
/* Line charts with intervals, in plain SVG: hover, touch and arrow keys read values; colours come from the style sheet. */

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 6;
const DASHES = ["", "7 4", "2 4"];
const LETTER = 6.9, ROW = 13; // of a name at the end of a line, in pixels

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}
const svg = (name, attributes = {}, ...children) => build(document.createElementNS(SVG, name), attributes, children);
const html = (name, attributes = {}, ...children) => build(document.createElement(name), attributes, children);

const look = (slot) => ({ colour: `var(--c${slot % COLOURS})`, dash: DASHES[Math.floor(slot / COLOURS) % DASHES.length] });

/* ---- numbers */

function compact(value) {
  const size = Math.abs(value);
  const [unit, name] = size >= 1e9 ? [1e9, "G"] : size >= 1e6 ? [1e6, "M"] : size >= 1e4 ? [1e3, "k"] : [1, ""];
  return (value / unit).toLocaleString("en-US", { maximumSignificantDigits: 4 }) + name;
}

function precise(value) {
  if (value === null || value === undefined) return "–";
  return value.toLocaleString("en-US", Math.abs(value) >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 });
}

function niceTicks(low, high, count) {
  const rough = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
    for (const m of Math.log10(high / low) > 2.5 ? [1] : [1, 2, 5]) {
      const tick = Number((m * 10 ** power).toPrecision(6));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  return ticks;
}

function linear(low, high, from, to) {
  const place = (value) => from + ((value - low) / (high - low || 1)) * (to - from);
  place.ticks = (count) => niceTicks(low, high, count);
  return place;
}

function logarithmic(low, high, from, to) {
  const inner = linear(Math.log(low), Math.log(high), from, to);
  const place = (value) => inner(Math.log(Math.max(value, low)));
  place.ticks = () => logTicks(low, high);
  return place;
}

/* ---- one chart */

class LineChart {
  /* panel: { x, y, marks, span }; chart: { title, alt, views, marks }; state: { view, hidden, interval, singles, log, slots } */
  constructor(panel, chart, state, keep = () => {}) {
    Object.assign(this, { panel, chart, state, keep });
    // Scores of 0 and below have no logarithm: such a chart stays linear whatever the switch says.
    this.positive = Object.values(chart.views).flat().every((line) => [...line.y, ...line.low].every((value) => value === null || value > 0));
    this.tip = html("div", { class: "tip", hidden: true });
    // A finger leaves when it is lifted, with the reading just begun: that stays until the chart loses focus.
    this.plot = html("div", {
      class: "plot", tabindex: 0, role: "img",
      "aria-label": `${chart.alt} Arrow keys read the values.`,
      onpointermove: (event) => this.point(event), onpointerdown: (event) => { this.grab(event); this.point(event); },
      onpointerup: (event) => this.release(event), ondblclick: () => this.zoom(null), onpointercancel: () => (this.from = null),
      onpointerleave: (event) => event.pointerType !== "touch" && this.leave(), onblur: () => this.leave(), onkeydown: (event) => this.key(event),
    });
    this.figure = html("figure", {}, html("figcaption", {}, chart.title), this.plot);
    new ResizeObserver(() => this.plot.clientWidth !== this.width && this.draw()).observe(this.plot);
  }

  get log() { return this.state.log && this.positive; }

  get range() { return this.state.zoom?.[this.chart.title] ?? null; }

  visible() {
    const lines = (this.chart.views[this.state.view] ?? []).filter((line) => !this.state.hidden.has(line.method));
    const smoothed = this.state.smooth ? lines.map((line) => smooth(line, this.state.smooth)) : lines;
    return this.range ? smoothed.map((line) => within(line, ...this.range)).filter((line) => line.x.length) : smoothed;
  }

  style(line) {
    const { colour, dash } = look(this.state.slots[line.method]);
    return { stroke: colour, "stroke-dasharray": dash };
  }

  draw() {
    const lines = this.visible();
    this.width = this.plot.clientWidth;
    if (!this.width) return;
    this.plan();
    this.height = Math.max(210, Math.min(330, this.width * 0.56), this.named ? this.tallest + 52 : 0);
    this.cursor = svg("g", {});
    this.index = null;
    const label = `${this.chart.title}: ${this.panel.y} over ${this.panel.x}`;
    const picture = svg("svg", { viewBox: `0 0 ${this.width} ${this.height}`, height: this.height, "aria-label": label });
    if (lines.length) {
      this.scales(lines);
      picture.append(this.axes(), ...this.marks(), ...lines.map((line) => this.behind(line)), ...lines.map((line) => this.line(line)));
      picture.append(...this.markNames(lines), ...this.ends(lines), this.cursor);
    } else {
      picture.append(svg("text", { x: this.width / 2, y: this.height / 2, "text-anchor": "middle" }, "nothing to show here"));
    }
    this.tip.hidden = true;
    this.plot.replaceChildren(picture, this.tip);
  }

  scales(lines) {
    const { panel, state, log } = this;
    const finite = (values) => values.filter((value) => value !== null && (!log || value > 0));
    const xs = lines.flatMap((line) => line.x);
    let ys = finite(lines.flatMap((line) => [line.y, state.interval ? line.low : [], state.interval ? line.high : [],
      state.singles ? line.runs.flatMap((run) => run.y) : []].flat()));
    for (const [height] of panel.marks) if (!log || height > 0) ys.push(height);
    if (!ys.length) ys = [1, 10];
    let [low, high] = panel.span ?? [Math.min(...ys), Math.max(...ys)];
    // A reference far above what has been learned so far would press every curve flat: it is only named at the edge.
    const reach = log ? Infinity : 3 * (high - low || Math.abs(high) || 1);
    for (const [height] of this.chart.marks ?? [])
      if (height > (log ? 0 : low - reach) && height < high + reach) [low, high] = [Math.min(low, height), Math.max(high, height)];
    if (log) [low, high] = [low / 1.12, high * 1.12];
    else if (low === high) [low, high] = [low - Math.abs(low || 1) * 0.1, high + Math.abs(high || 1) * 0.1];
    else [low, high] = [low - (high - low) * 0.05, high + (high - low) * 0.05];
    const scale = log ? logarithmic : linear;
    const bottom = this.height - 42, top = 10;
    this.y = scale(low, high, bottom, top);
    this.yTicks = this.y.ticks(5);
    this.sparse = lines.length <= 5; // else dots hide the dashes that tell lines apart
    this.left = 28 + Math.max(...this.yTicks.map((tick) => compact(tick).length), 1) * 7.2;
    this.right = this.width - (this.named ? this.margin : 14);
    const first = Math.min(...xs), last = Math.max(...xs);
    const start = this.range || (first > 0.25 * last && first < last) ? first : 0, end = last > start ? last : start + 1;
    this.x = linear(start, end, this.left, this.right);
    this.at = [...new Set(xs)].sort((a, b) => a - b);
    [this.top, this.bottom] = [top, bottom];
  }

  axes() {
    const group = svg("g", { "aria-hidden": true });
    for (const tick of this.yTicks) {
      const y = this.y(tick);
      group.append(svg("line", { class: "grid", x1: this.left, x2: this.right, y1: y, y2: y }),
        svg("text", { x: this.left - 7, y: y + 4, "text-anchor": "end" }, compact(tick)));
    }
    for (const tick of this.x.ticks(Math.max(2, Math.floor((this.right - this.left) / 90)))) {
      const x = this.x(tick);
      if (x > this.right + 0.5) continue;
      group.append(svg("line", { class: "axis", x1: x, x2: x, y1: this.bottom, y2: this.bottom + 4 }),
        svg("text", { x, y: this.bottom + 17, "text-anchor": "middle" }, compact(tick)));
    }
    group.append(svg("line", { class: "axis", x1: this.left, x2: this.right, y1: this.bottom, y2: this.bottom }),
      svg("text", { x: (this.left + this.right) / 2, y: this.height - 6, "text-anchor": "middle" }, this.panel.x),
      svg("text", { x: -(this.top + this.bottom) / 2, y: 11, transform: "rotate(-90)", "text-anchor": "middle" },
        this.panel.y + (this.log ? " (log)" : "")));
    return group;
  }

  /* The marks by their place in the chart, or the side of it on which they lie. */
  heights() {
    const all = [...this.panel.marks, ...(this.chart.marks ?? [])].filter(([height]) => !this.log || height > 0);
    return all.map(([height, words]) => ({ height, words, y: this.y(height) }))
      .map((mark) => ({ ...mark, above: mark.y < this.top - 1, below: mark.y > this.bottom + 1 }));
  }

  marks() {
    return this.heights().filter(({ above, below }) => !above && !below)
      .map(({ y }) => svg("line", { class: "mark", x1: this.left, x2: this.right, y1: y, y2: y }));
  }

  /* In front of the curves, at the end where fewer of them are in the way. */
  markNames(lines) {
    return this.heights().map(({ height, words, y, above, below }) => {
      if (above || below)
        return svg("text", { class: "name beyond", x: this.right - 4, y: above ? this.top + 8 : this.bottom - 6, "text-anchor": "end" },
          `${above ? "↑" : "↓"} ${words}: ${precise(height)}`);
      const base = y < this.top + 16 ? y + 14 : y - 5, wide = words.length * 6.6 + 8;
      const crowd = (from, to) => lines.flatMap((line) => line.x.map((x, i) => [this.x(x), this.y(line.y[i])]))
        .filter(([px, py]) => px > from && px < to && Math.abs(py - (base - 4)) < 12).length;
      const left = crowd(this.left, this.left + wide) < crowd(this.right - wide, this.right);
      return svg("text", { class: "name", x: left ? this.left + 4 : this.right - 4, y: base, "text-anchor": left ? "start" : "end" }, words);
    });
  }

  path(x, y, steps) {
    let words = "";
    for (let i = 0; i < x.length; i++) {
      if (y[i] === null) continue;
      const px = this.x(x[i]).toFixed(1), py = this.y(y[i]).toFixed(1);
      words += words ? (steps ? `H${px}V${py}` : `L${px} ${py}`) : `M${px} ${py}`;
    }
    return words;
  }

  behind(line) {
    const { colour } = look(this.state.slots[line.method]);
    const group = svg("g", {});
    if (this.state.interval && !line.steps) {
      const parts = [[]];
      line.x.forEach((_, i) => (line.low[i] === null ? parts.push([]) : parts.at(-1).push(i)));
      for (const part of parts.filter((part) => part.length > 1)) {
        const there = part.map((i) => `${this.x(line.x[i]).toFixed(1)} ${this.y(line.high[i]).toFixed(1)}`);
        const back = part.map((i) => `${this.x(line.x[i]).toFixed(1)} ${this.y(line.low[i]).toFixed(1)}`).reverse();
        group.append(svg("path", { class: "band", fill: colour, d: `M${[...there, ...back].join("L")}Z` }));
      }
    }
    if (this.state.singles)
      for (const run of line.runs)
        group.append(svg("path", { class: "single", stroke: colour, d: this.path(run.x, run.y, line.steps) }, svg("title", {}, run.name)));
    return group;
  }

  line(line) {
    const { colour } = look(this.state.slots[line.method]);
    const group = svg("g", {}, svg("path", { class: line.faint ? "line faint" : "line", ...this.style(line), d: this.path(line.x, line.y, line.steps) }));
    const dots = line.dots.length ? line.dots : this.sparse && !line.faint && (this.right - this.left) / line.x.length > 11 ? line.x.map((x, i) => [x, line.y[i], 1]) : [];
    for (const [x, y, n] of dots)
      group.append(svg("circle", {
        cx: this.x(x).toFixed(1), cy: this.y(y).toFixed(1), r: (line.dots.length ? 2.2 + 1.8 * Math.sqrt(n) : 2.4).toFixed(1),
        fill: colour, stroke: colour, "fill-opacity": line.dots.length ? 0.55 : 1,
      }));
    return group;
  }

  caption(line) {
    return line.what ? `${line.method} ${line.what}` : line.method;
  }

  /* Faint lines share the colour and dashes of a named one: with many, only that is named. */
  labelled(lines) {
    return lines.length > 8 ? lines.filter((line) => !line.faint) : lines;
  }

  /* Names at the ends of lines: in all charts of a panel or in none, with one margin and one height for all of them. */
  plan() {
    const charts = (this.panel.charts ?? [this.chart]).map((chart) => this.labelled((chart.views[this.state.view] ?? []).filter((line) => !this.state.hidden.has(line.method))));
    const longest = Math.max(0, ...charts.flat().map((line) => this.caption(line).length));
    this.margin = Math.min(longest * LETTER + 14, this.width * 0.36);
    this.tallest = Math.max(0, ...charts.map((lines) => lines.reduce((sum, line) => sum + ROW * this.rows(line).length + 1, 0)));
    this.named = this.width > 430 && this.tallest <= 420 && charts.some((lines) => lines.length > 1);
  }

  /* A name in one row or two, broken after a comma or between words. */
  rows(line) {
    const words = this.caption(line), room = Math.floor((this.margin - 10) / LETTER);
    if (words.length <= room) return [words];
    const comma = words.lastIndexOf(", ", room - 1), gap = comma > 0 ? comma + 1 : words.lastIndexOf(" ", room);
    const [first, rest] = gap > 0 ? [words.slice(0, gap), words.slice(gap + 1)] : [words.slice(0, room), words.slice(room)];
    return [first, rest.length > room ? `${rest.slice(0, room - 1)}…` : rest];
  }

  /* Moved apart where they would overlap. */
  ends(lines) {
    if (!this.named) return [];
    const places = this.labelled(lines).map((line) => ({ line, rows: this.rows(line), y: this.y(line.y.at(-1)) })).sort((a, b) => a.y - b.y);
    const half = (place) => (ROW * place.rows.length + 1) / 2;
    for (let i = 1; i < places.length; i++) places[i].y = Math.max(places[i].y, places[i - 1].y + half(places[i - 1]) + half(places[i]));
    let floor = this.bottom + ROW / 2;
    for (const place of [...places].reverse()) { place.y = Math.min(place.y, floor - half(place)); floor = place.y - half(place); }
    return places.map(({ line, rows, y }) => {
      const first = y + 4 - ((rows.length - 1) * ROW) / 2, fill = `fill:${look(this.state.slots[line.method]).colour}`;
      return svg("text", { class: line.faint ? "end faint" : "end", y: first, style: fill },
        rows.map((words, i) => svg("tspan", { x: this.right + 7, dy: i ? ROW : 0 }, words)));
    });
  }

  /* ---- zoom: drag with a mouse, + and − around the cursor, double-click or 0 for the whole */

  zoom(range) {
    this.state.zoom = { ...this.state.zoom, [this.chart.title]: range };
    this.keep();
    this.draw();
  }

  grab(event) {
    if (event.pointerType === "mouse" && event.button === 0) this.from = event.clientX - this.plot.getBoundingClientRect().left;
  }

  release(event) {
    const from = this.from, to = event.clientX - this.plot.getBoundingClientRect().left;
    this.from = null;
    if (from === null || from === undefined || Math.abs(to - from) < 12) return;
    const inside = this.at.filter((value) => this.x(value) >= Math.min(from, to) - 4 && this.x(value) <= Math.max(from, to) + 4);
    if (inside.length > 1) this.zoom([inside[0], inside.at(-1)]);
  }

  zoomBy(factor) {
    const centre = this.index ?? Math.floor(this.at.length / 2), reach = Math.max(1, Math.round((this.at.length * factor) / 2));
    this.zoom(factor > 1 ? null : [this.at[Math.max(0, centre - reach)], this.at[Math.min(this.at.length - 1, centre + reach)]]);
  }

  /* ---- reading values */

  point(event) {
    if (!this.at?.length || !this.visible().length) return;
    const box = this.plot.getBoundingClientRect();
    const x = event.clientX - box.left;
    this.dragged?.remove();
    if (this.from !== null && this.from !== undefined && Math.abs(x - this.from) > 4) {
      const [left, right] = [Math.min(x, this.from), Math.max(x, this.from)];
      this.dragged = svg("rect", { class: "zoomed", x: left, width: right - left, y: this.top, height: this.bottom - this.top });
      this.plot.querySelector("svg").append(this.dragged);
    }
    const nearest = this.at.reduce((best, value, i) => (Math.abs(this.x(value) - x) < Math.abs(this.x(this.at[best]) - x) ? i : best), 0);
    this.read(nearest);
  }

  key(event) {
    if (!this.at?.length) return;
    const last = this.at.length - 1;
    const moves = { ArrowLeft: (this.index ?? last + 1) - 1, ArrowRight: (this.index ?? -1) + 1, Home: 0, End: last };
    if (event.key === "Escape") this.leave();
    if (event.key === "+" || event.key === "=") this.zoomBy(0.5);
    if (event.key === "-" || event.key === "0") this.zoom(null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.read(Math.max(0, Math.min(last, moves[event.key])));
    document.getElementById("spoken").textContent = this.tip.innerText.replace(/\s+/g, " ");
  }

  leave() {
    this.from = null;
    this.dragged?.remove();
    this.tip.hidden = true;
    this.index = null;
    this.cursor?.replaceChildren();
  }

  read(index) {
    this.index = index;
    const at = this.at[index], x = this.x(at);
    const found = this.visible().flatMap((line) => {
      const i = line.x.findLastIndex((value) => value <= at);
      return i < 0 || at > line.x.at(-1) ? [] : [{ line, i }];
    }).sort((a, b) => b.line.y[b.i] - a.line.y[a.i]);
    this.cursor.replaceChildren(svg("line", { class: "cursor", x1: x, x2: x, y1: this.top, y2: this.bottom }),
      ...found.map(({ line, i }) => svg("circle", { cx: x, cy: this.y(line.y[i]), r: 4, fill: "var(--card)", "stroke-width": 2, ...this.style(line), "stroke-dasharray": "" })));
    const rows = found.map(({ line, i }) => html("tr", {},
      html("td", {}, swatch(this.state.slots[line.method], line.faint)), html("td", {}, this.caption(line)), html("td", {}, html("b", {}, precise(line.y[i]))),
      html("td", { class: "soft around" }, line.low[i] === null ? "" : `${precise(line.low[i])} to ${precise(line.high[i])}`),
      html("td", { class: "soft around" }, line.n[i] === null ? "" : line.n[i] === 1 ? "1 run" : `${line.n[i]} runs`)));
    this.tip.replaceChildren(html("strong", {}, `${this.panel.x} ${at.toLocaleString("en-US")}`), html("table", {}, html("tbody", {}, rows)));
    this.tip.hidden = false;
    this.place(x);
  }

  /* Beside the cursor, and always inside the window: beyond the chart where that is narrower than the words. */
  place(x) {
    const box = this.plot.getBoundingClientRect(), room = document.documentElement, wide = this.tip.offsetWidth, tall = this.tip.offsetHeight;
    const beside = box.left + x + 14 + wide <= room.clientWidth - 8 ? box.left + x + 14 : box.left + x - 14 - wide;
    const left = Math.max(8, Math.min(beside, room.clientWidth - 8 - wide));
    const top = Math.max(8, Math.min(box.top + this.top + 4, room.clientHeight - 8 - tall));
    this.tip.style.left = `${left - box.left}px`;
    this.tip.style.top = `${top - box.top}px`;
  }
}

/* An exponential average that starts at the first value; bands and single runs are smoothed alike. */
function smooth(line, weight) {
  const average = (values) => {
    let sum = 0, total = 0;
    return values.map((value) => {
      if (value === null) return null;
      [sum, total] = [weight * sum + value, weight * total + 1];
      return sum / total;
    });
  };
  const runs = line.runs.map((run) => ({ ...run, y: average(run.y) }));
  return { ...line, y: average(line.y), low: average(line.low), high: average(line.high), runs };
}

/* The part of a line between two steps. */
function within(line, from, to) {
  const keep = line.x.map((x, i) => (x >= from && x <= to ? i : -1)).filter((i) => i >= 0);
  const part = (values) => keep.map((i) => values[i]);
  const runs = line.runs.map((run) => {
    const there = run.x.map((x, i) => (x >= from && x <= to ? i : -1)).filter((i) => i >= 0);
    return { ...run, x: there.map((i) => run.x[i]), y: there.map((i) => run.y[i]) };
  });
  return { ...line, x: part(line.x), y: part(line.y), low: part(line.low), high: part(line.high), n: part(line.n), runs, dots: line.dots.filter(([x]) => x >= from && x <= to) };
}

function swatch(slot, faint = false) {
  const { colour, dash } = look(slot);
  return svg("svg", { width: 24, height: 10, "aria-hidden": true },
    svg("line", { x1: 1, x2: 23, y1: 5, y2: 5, stroke: colour, "stroke-width": faint ? 1 : 3, "stroke-dasharray": dash }));
}
