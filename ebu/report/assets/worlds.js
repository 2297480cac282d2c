"use strict";
/* The two small worlds as pictures: a chain of states, a maze. Each shows how much of the reward has arrived where. */

const METHODS = [
  { key: "ebu", name: "EBU", slot: 0, rule: "From the end, each target is written into the table before the next one is read." },
  { key: "one_step", name: "One-step", slot: 1, rule: "The reward, and what the old table says of the next state." },
  { key: "n_step", name: "3-step", slot: 3, rule: "Three rewards, then the old table." },
  { key: "retrace", name: "Retrace", slot: 4, rule: "Follows the walk while its own policy would have gone the same way." },
];

const tint = (share, colour, ground) =>
  share < 0.01 ? ground : `color-mix(in oklab, ${colour} ${(14 + 86 * Math.min(1, share) ** 0.7).toFixed(0)}%, ${ground})`;

/* read: how many steps have been read from the end; shares and targets: by step. */
function drawWorld(scene, method, read, shares, targets) {
  const colour = `var(--c${method.slot})`;
  const first = scene.taken.length - read;
  const by = (key) => {
    const best = new Map();
    for (let t = first; t < scene.taken.length; t++) {
      const place = key(t), old = best.get(place);
      if (old === undefined || shares[t] > old.share) best.set(place, { share: shares[t], y: targets[t] });
    }
    return best;
  };
  return scene.picture.kind === "chain" ? chainPicture(scene, colour, first, by) : mazePicture(scene, colour, first, by);
}

function chainPicture(scene, colour, first, by) {
  const moves = by((t) => `${scene.states[t]} ${scene.states[t + 1]}`);
  const x = (state) => 26 + state * 76, y = 62, radius = 17;
  const picture = svg("svg", { viewBox: "0 0 280 124", role: "img", "aria-label": "The chain, its moves shaded by the share of the reward that has arrived" });
  const all = [...new Set(scene.taken.map((_, t) => `${scene.states[t]} ${scene.states[t + 1]}`))];
  for (const move of all) {
    const [from, to] = move.split(" ").map(Number);
    const onward = to > from, bend = onward ? -34 : 34, found = moves.get(move);
    const current = first < scene.taken.length && move === `${scene.states[first]} ${scene.states[first + 1]}`;
    const [x1, x2] = onward ? [x(from) + 11, x(to) - 12] : [x(from) - 11, x(to) + 12];
    const [y1, y2] = onward ? [y - 14, y - 15] : [y + 14, y + 15];
    const stroke = found ? tint(found.share, colour, "var(--line)") : "var(--line)";
    const middle = (x1 + x2) / 2;
    picture.append(
      svg("path", { class: "move", d: `M${x1} ${y1}Q${middle} ${y + bend} ${x2} ${y2}`, fill: "none", style: `stroke:${stroke}`, "stroke-width": current ? 6 : 4, "stroke-linecap": "round" }),
      svg("path", { class: "move", d: `M${x2} ${y2}l${onward ? -9 : 9} ${onward ? -7 : 7}l${onward ? -2 : 2} ${onward ? 9 : -9}z`, style: `fill:${stroke};stroke:${stroke}` }),
      svg("text", { x: middle, y: onward ? y - 33 : y + 43, "text-anchor": "middle" }, found ? amount(found.y, scene.scale) : ""));
  }
  scene.names.forEach((name, state) => {
    const goal = state === scene.names.length - 1;
    const here = first < scene.taken.length && state === scene.states[first];
    picture.append(svg("circle", { cx: x(state), cy: y, r: radius, fill: goal ? "var(--good)" : "var(--card)", stroke: here ? "var(--ink)" : "var(--soft)", "stroke-width": here ? 3.5 : 1.3 }),
      svg("text", { x: x(state), y: y + 4, "text-anchor": "middle", style: goal ? "fill:var(--card)" : "" }, name));
  });
  return picture;
}

function mazePicture(scene, colour, first, by) {
  const { size, walls, cells } = scene.picture;
  const shares = by((t) => scene.states[t]);
  const picture = svg("svg", { viewBox: `-0.1 -0.1 ${size + 0.2} ${size + 0.2}`, role: "img", "aria-label": "The maze, its cells shaded by the share of the reward that has arrived" });
  for (let row = 0; row < size; row++)
    for (let column = 0; column < size; column++)
      picture.append(svg("rect", { class: walls[row][column] === "#" ? "wall" : "floor", x: column, y: row, width: 1, height: 1, "stroke-width": 0.03, rx: 0.08 }));
  cells.forEach(([row, column], state) => {
    const found = shares.get(state);
    if (found) picture.append(svg("rect", { class: "cell", x: column + 0.03, y: row + 0.03, width: 0.94, height: 0.94, rx: 0.08, style: `fill:${tint(found.share, colour, "var(--page)")}` }));
  });
  const centre = (state) => [cells[state][1] + 0.5, cells[state][0] + 0.5];
  const goal = scene.states.at(-1), [gx, gy] = centre(goal);
  picture.append(svg("path", { class: "walk", d: "M" + scene.states.map((state) => centre(state).join(" ")).join("L") }));
  const star = [...Array(10).keys()].map((i) => [gx + (i % 2 ? 0.16 : 0.38) * Math.sin((i * Math.PI) / 5), gy - (i % 2 ? 0.16 : 0.38) * Math.cos((i * Math.PI) / 5)].join(" "));
  picture.append(svg("path", { d: `M${star.join("L")}Z`, fill: "var(--good)" }));
  const here = scene.states[Math.min(first, scene.states.length - 1)], [ax, ay] = centre(here);
  if (first < scene.taken.length) {
    const turn = { "↑": -90, "↓": 90, "←": 180, "→": 0 }[scene.actions[scene.taken[first]]];
    picture.append(svg("circle", { class: "agent", cx: ax, cy: ay, r: 0.3 }),
      svg("path", { d: "M-.13 -.12L.17 0L-.13 .12Z", transform: `translate(${ax} ${ay}) rotate(${turn})`, fill: "var(--ink)" }));
  }
  return picture;
}

/* A value as a newcomer reads it: few digits, no false precision. */
function amount(value, scale) {
  if (value === null || value === undefined) return "";
  if (Math.abs(value) < scale * 5e-4) return "0";
  const digits = scale >= 100 ? (Math.abs(value) < 10 ? 1 : 0) : 3;
  return String(Number(value.toFixed(digits)));
}
