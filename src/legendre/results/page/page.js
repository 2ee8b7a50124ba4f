"use strict";
{
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = document.querySelector("svg").namespaceURI;
const redraw = []; // what is drawn again when the colours change
const place = (id) => document.getElementById(id);
const clamp = (v, n) => Math.max(0, Math.min(n - 1, v));
const compact = (v) => (Math.abs(v) < 1e4 ? number(v, 3) : new Intl.NumberFormat("en", { notation: "compact" }).format(v));
const percent = (share) => (100 * share).toFixed(1) + " %";
const shorten = (text, most) => (text.length <= most ? text : text.slice(0, most - 1) + "…");
const factor = (log) => (Number.isFinite(log) ? `× ${number(Math.exp(log), 3)}` : "hardly any data, no factor");
const numbers = (values) => values.map((v) => (v === null ? NaN : v));

function add(parent, tag, attributes = {}, text = null) {
  const svg = tag === "svg" || parent.namespaceURI === SVG;
  const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.appendChild(node);
  return node;
}

function number(value, digits = 4) {
  if (value === null || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size === Infinity) return value > 0 ? "∞" : "−∞";
  const far = size !== 0 && (size >= 1e7 || size < 1e-4);
  const text = far ? value.toExponential(digits - 2).replace(/\.?0*e\+?/, "e")
    : Number.isInteger(value) ? value.toLocaleString("en")
    : Number(value.toPrecision(Math.max(digits, Math.ceil(Math.log10(size))))).toLocaleString("en", { maximumFractionDigits: 20 });
  return text.replace(/-/g, "−");
}

// Colours: one scale for amounts, one for signed numbers that is white in the middle, or black at night.
const RISING = [[21, 10, 43], [31, 58, 125], [19, 126, 162], [78, 200, 146], [252, 246, 176]];
const SIGNED = [[82, 32, 130], [180, 150, 225], [252, 252, 252], [247, 175, 90], [150, 70, 0]];
const SIGNED_DARK = [[222, 195, 255], [130, 90, 185], [32, 32, 34], [190, 115, 25], [255, 215, 150]];
const signed = () => (dark() ? SIGNED_DARK : SIGNED);

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function colour(stops, share) {
  if (!Number.isFinite(share)) return dark() ? [58, 64, 74] : [214, 212, 206];
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2);
  return stops[k].map((v, j) => Math.round(v + (at - k) * (stops[k + 1][j] - v)));
}

// A table as a picture that can be pointed at, or walked through with the arrow keys.
function makeMap(parent, label, onRead) {
  const side = add(parent, "div", { class: "axis" });
  const frame = add(parent, "div", { class: "map", tabindex: "0", role: "img", "aria-label": label });
  const canvas = add(frame, "canvas"), cross = add(frame, "div", { class: "cross" });
  const below = add(parent, "div", { class: "axis" });
  const ramp = add(parent, "div", { class: "ramp" }), scale = add(parent, "div", { class: "axis" });
  const map = { rows: 1, columns: 1, at: null };
  map.draw = (names, levels, share, stops, marks) => {
    const [rows, columns] = levels.map((list) => list.length);
    Object.assign(map, { rows, columns });
    Object.assign(canvas, { width: columns, height: rows });
    canvas.style.aspectRatio = String(Math.min(1.9, Math.max(0.8, columns / rows)));
    const context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
    for (let i = 0; i < rows * columns; i++) image.data.set([...colour(stops, share(Math.floor(i / columns), i % columns)), 255], 4 * i);
    context.putImageData(image, 0, 0);
    side.textContent = names[0] === null ? "" : `${names[0]}, from ${shorten(levels[0][0], 18)} down to ${shorten(levels[0].at(-1), 18)}`;
    write(below, [shorten(levels[1][0], 18), names[1], columns > 1 ? shorten(levels[1].at(-1), 18) : ""]);
    ramp.style.background = `linear-gradient(90deg, ${stops.map((c) => `rgb(${c})`)})`;
    write(scale, marks);
  };
  const write = (axis, texts) => { axis.textContent = ""; texts.forEach((text) => add(axis, "span", {}, text)); };
  map.mark = (at) => {
    map.at = at;
    const [top, left] = at ? [at[0] / map.rows, at[1] / map.columns] : [0, 0];
    const inset = { top: `${100 * top}%`, left: `${100 * left}%`, height: `${100 / map.rows}%`, width: `${100 / map.columns}%` };
    Object.assign(cross.style, { display: at ? "block" : "none", ...inset });
  };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    const down = (event.clientY - box.top) / box.height, across = (event.clientX - box.left) / box.width;
    onRead([clamp(Math.floor(down * map.rows), map.rows), clamp(Math.floor(across * map.columns), map.columns)]);
  };
  for (const kind of ["pointermove", "pointerdown"]) frame.addEventListener(kind, point);
  frame.addEventListener("focus", () => onRead(map.at || [0, 0]));
  frame.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [r, c] = map.at || [0, 0];
    onRead([clamp(r + move[0], map.rows), clamp(c + move[1], map.columns)]);
  });
  return map;
}

function ticks(low, high, least = 0) { // at 1, 2 or 5 times a power of ten, at least so far apart
  const raw = Math.max((high - low) / 5, least), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((v) => v * power >= raw * 0.999) * power;
  const first = Math.ceil(low / step), n = Math.floor(high / step) - first + 1;
  return Array.from({ length: n }, (_, i) => (first + i) * step);
}

function factorTicks(low, high) { // of logarithms: where the factors are plain numbers
  const wide = high - low > 5, powers = ticks(low / Math.LN10, high / Math.LN10, 1);
  const inside = wide ? powers : [-2, -1, 0, 1, 2].flatMap((p) => [1, 2, 5].map((v) => p + Math.log10(v)));
  const shown = inside.map((v) => v * Math.LN10).filter((v) => v >= low && v <= high);
  return shown.length > 2 ? shown : ticks(Math.exp(low), Math.exp(high)).filter((v) => v > 0).map(Math.log);
}

// A line through points, or stems from a base; `write` and `read` write the ticks and the point under the pointer.
function chart(parent, { title, note = "", x, y, marks = ticks, write, read, names = null, base, limit, chosen, seen = [], stems = false }) {
  const wide = 360, high = 210, left = 48, right = 12, bottom = 26;
  const figure = add(parent, "figure"), head = add(figure, "h3", {}, title);
  add(head, "span", {}, note);
  const svg = add(figure, "svg", { viewBox: `0 0 ${wide} ${high}`, tabindex: "0", role: "img", "aria-label": title });
  const caption = add(figure, "figcaption", { "aria-live": "polite" }, chosen === undefined ? "" : read(chosen));
  const shown = y.map((_, i) => i).filter((i) => Number.isFinite(y[i]));
  const all = [...shown.map((i) => y[i]), ...seen.filter(Number.isFinite), base, limit].filter((v) => v !== undefined);
  let low = Math.min(...all), top = Math.max(...all);
  const room = 0.06 * (top - low || Math.abs(top) || 1);
  low -= room;
  top += room;
  const across = (i) => left + (x.length < 2 ? 0.5 : (x[i] - x[0]) / (x.at(-1) - x[0])) * (wide - left - right);
  const up = (v) => high - bottom - ((v - low) / (top - low)) * (high - bottom - 10);
  const level = (kind, v) => add(svg, "line", { class: kind, x1: left, x2: wide - right, y1: up(v), y2: up(v) });
  for (const v of marks(low, top)) {
    level("grid", v);
    add(svg, "text", { x: left - 6, y: up(v) + 4, "text-anchor": "end" }, write(v));
  }
  if (base !== undefined) level("base", base);
  if (limit !== undefined) level("limit", limit);
  if (!stems) add(svg, "path", { class: "curve", d: shown.map((i, n) => `${n ? "L" : "M"}${across(i)} ${up(y[i])}`).join("") });
  for (const i of shown) {
    if (stems) add(svg, "line", { class: "stem", x1: across(i), x2: across(i), y1: up(base), y2: up(y[i]) });
    if (stems || shown.length <= 40) add(svg, "circle", { class: "dot", cx: across(i), cy: up(y[i]), r: 3 });
    if (i === chosen) add(svg, "circle", { class: "chosen", cx: across(i), cy: up(y[i]), r: 6.5 });
  }
  for (const i of shown) if (Number.isFinite(seen[i])) add(svg, "circle", { class: "seen", cx: across(i), cy: up(seen[i]), r: 3.5 });
  const texts = x.map((v, i) => (names ? shorten(names[i], 14) : number(v)));
  let edge = -1;
  for (let i = 0; i < x.length; i++) { // as many names as have room
    const half = 3.3 * texts[i].length, at = Math.min(Math.max(across(i), half), wide - half);
    if (at - half < edge + 10) continue;
    edge = at + half;
    add(svg, "text", { x: at, y: high - 8, "text-anchor": "middle" }, texts[i]);
  }
  const cursor = add(svg, "line", { class: "cursor", y1: 10, y2: high - bottom, visibility: "hidden" });
  let at = x.length - 1;
  const show = (i) => {
    at = clamp(i, x.length);
    for (const [name, value] of [["x1", across(at)], ["x2", across(at)], ["visibility", "visible"]]) cursor.setAttribute(name, value);
    caption.textContent = read(at);
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), to = ((event.clientX - box.left) / box.width) * wide;
    show(x.reduce((best, _, i) => (Math.abs(across(i) - to) < Math.abs(across(best) - to) ? i : best), 0));
  });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    show(at + move);
  });
}

// A table that sorts by a column, shows ten rows and more when asked, and finds rows by a part of their text.
function makeTable(parent, what, heads, text, rows) {
  let sorted = -1, down = true, most = 10, part = "";
  const tools = add(parent, "div", { class: "tools" });
  const input = add(add(tools, "label", {}, "Filter"), "input", { type: "search", placeholder: "part of a name" });
  const count = add(tools, "span", { class: "note", role: "status" });
  const table = add(add(parent, "div", { class: "wide", tabindex: "0", role: "region", "aria-label": what }), "table");
  const head = add(add(table, "thead"), "tr"), body = add(table, "tbody");
  const more = add(parent, "button", { type: "button", class: "more" }, "Show more");
  const cells = heads.map((_, k) => add(head, "th", { scope: "col", class: k === text ? "text" : "number" }));
  const buttons = cells.map((cell) => add(cell, "button", { type: "button" }));
  const order = (a, b) => (sorted === text ? a.localeCompare(b, "en", { numeric: true }) : (a === null) - (b === null) || a - b);
  const draw = () => {
    const kept = rows.filter((row) => row[text].toLowerCase().includes(part));
    if (sorted >= 0) kept.sort((a, b) => (down ? order(b[sorted], a[sorted]) : order(a[sorted], b[sorted])));
    heads.forEach((name, k) => {
      buttons[k].textContent = name + (sorted === k ? (down ? " ↓" : " ↑") : "");
      if (sorted === k) cells[k].setAttribute("aria-sort", down ? "descending" : "ascending");
      else cells[k].removeAttribute("aria-sort");
    });
    body.textContent = "";
    for (const row of kept.slice(0, most)) {
      const line = add(body, "tr");
      row.forEach((value, k) => add(line, "td", { class: k === text ? "text" : "number" }, k === text ? value : number(value)));
    }
    count.textContent = (kept.length < rows.length ? `${kept.length} of ` : "") + `${rows.length.toLocaleString("en")} ${what}`;
    more.hidden = kept.length <= most;
  };
  buttons.forEach((button, k) => button.addEventListener("click", () => {
    down = sorted === k ? !down : k !== text;
    sorted = k;
    draw();
  }));
  input.addEventListener("input", () => { part = input.value.trim().toLowerCase(); draw(); });
  more.addEventListener("click", () => { most += 50; draw(); });
  draw();
}

// X, Q and X - Q, with a slider over one mode.
function slices({ modes, levels, shape, start, x, q }) {
  const seen = numbers(x), made = numbers(q);
  const all = [seen, made, seen.map((v, i) => (Math.abs(v - made[i]) < 1e-6 * (v + made[i]) ? 0 : v - made[i]))]; // rounding
  const largest = (values, share) => {
    const sizes = values.filter(Number.isFinite).map(Math.abs).sort((a, b) => a - b);
    return sizes[Math.floor((sizes.length - 1) * share)] || sizes.at(-1) || 1;
  };
  const most = Math.max(largest(all[0], 1), largest(all[1], 1)), spread = largest(all[2], 0.998);
  const power = largest(all[1], 0.5) < 0.12 * most ? 0.5 : 1; // a few large cells would leave all others dark
  const strides = [shape[1] * shape[2], shape[2], 1];
  let axes = [0, 1, 2], slice = start, at = null;
  const parent = place("viewer"), tools = add(parent, "div", { class: "tools" });
  const choose = add(add(tools, "label", {}, "Slices of"), "select", { id: "slice-mode" });
  modes.forEach((mode, k) => { if (mode !== null) add(choose, "option", { value: k }, mode); });
  const label = add(tools, "label", { class: "slide" });
  const slider = add(label, "input", { type: "range", id: "slice", min: 0, step: 1, "aria-label": "slice" });
  const output = add(label, "output", { for: "slice" });
  const swap = add(tools, "button", { type: "button" }, "Swap axes");
  tools.hidden = modes[0] === null;
  const three = add(parent, "div", { class: "three" });
  const maps = ["X", "Q", "X − Q"].map((title) => {
    const figure = add(three, "figure");
    add(figure, "h3", {}, title);
    return makeMap(figure, title, (cell) => { at = cell; read(); });
  });
  const words = add(parent, "p", { class: "read", "aria-live": "polite", id: "reading" });
  const index = (r, c) => slice * strides[axes[0]] + r * strides[axes[1]] + c * strides[axes[2]];
  const read = () => {
    if (at && (at[0] >= shape[axes[1]] || at[1] >= shape[axes[2]])) at = null;
    maps.forEach((map) => map.mark(at));
    const cell = [slice, ...(at || [])];
    const names = axes.map((k, n) => (modes[k] === null ? "" : `${modes[k]} ${levels[k][cell[n]]}`)).filter(Boolean);
    const [a, b, c] = at ? all.map((values) => number(values[index(...at)])) : [];
    words.textContent = at ? `${names.join(", ")}:  X ${a},  Q ${b},  X − Q ${c}` : "";
  };
  const draw = () => {
    const shown = axes.slice(1);
    maps.forEach((map, k) => {
      const share = (v) => (k < 2 ? Math.max(0, v / most) ** power : 0.5 + v / (2 * spread));
      const marks = k < 2 ? [0, 0.5 ** (1 / power) * most, most] : [-spread, 0, spread];
      map.draw(shown.map((j) => modes[j]), shown.map((j) => levels[j]), (r, c) => share(all[k][index(r, c)]), k < 2 ? RISING : signed(), marks.map((v) => number(v, 3)));
    });
    slider.max = shape[axes[0]] - 1;
    slider.value = slice;
    output.textContent = levels[axes[0]][slice];
    slider.setAttribute("aria-valuetext", `${modes[axes[0]]} ${output.textContent}`);
    read();
  };
  slider.addEventListener("input", () => { slice = Number(slider.value); draw(); });
  choose.addEventListener("change", () => {
    const k = Number(choose.value);
    axes = [k, ...[0, 1, 2].filter((j) => j !== k)];
    slice = k ? 0 : start;
    draw();
  });
  swap.addEventListener("click", () => { axes = [axes[0], axes[2], axes[1]]; at = null; draw(); });
  redraw.push(draw);
}

function effects({ shares, lines, maps }) {
  for (const [name, share] of shares) {
    add(place("shares"), "div", {}, name);
    add(add(place("shares"), "div"), "i").style.width = `${(100 * share) / Math.max(...shares.map((row) => row[1]))}%`;
    add(place("shares"), "div", {}, percent(share));
  }
  for (const { names, share, ordered, levels, values, observed } of lines) {
    const logs = numbers(values), seen = numbers(observed || []);
    chart(place("effect-lines"), {
      title: names[0], note: percent(share), x: logs.map((_, i) => i), y: logs, names: levels[0], base: 0,
      stems: !ordered, marks: factorTicks, write: (v) => "×" + number(Math.exp(v), 2), seen,
      read: (i) => `${names[0]} ${levels[0][i]}: ${factor(logs[i])}` + (Number.isFinite(seen[i]) ? `, observed mean ${factor(seen[i])}` : ""),
    });
  }
  for (const { names, share, levels, values } of maps) {
    const figure = add(place("effect-maps"), "figure"), logs = numbers(values), columns = levels[1].length;
    add(add(figure, "h3", {}, names.join(" × ")), "span", {}, percent(share));
    const most = Math.max(...logs.filter(Number.isFinite).map(Math.abs)) || 1;
    const map = makeMap(figure, names.join(" and "), (at) => {
      map.mark(at);
      caption.textContent = names.map((name, k) => `${name} ${levels[k][at[k]]}`).join(", ") + `: ${factor(logs[at[0] * columns + at[1]])}`;
    });
    const caption = add(figure, "figcaption", { "aria-live": "polite" });
    const marks = [-most, 0, most].map((v) => "×" + number(Math.exp(v), 2));
    redraw.push(() => map.draw(names, levels, (r, c) => 0.5 + logs[r * columns + c] / (2 * most), signed(), marks));
  }
}

const draw = {
  history: ({ step, residual, tol }) => {
    if (step.length < 2) return;
    const log = (v) => Math.log10(Math.max(v, 1e-300));
    chart(place("history"), {
      title: "Residual after each step", note: tol > 0 ? `asked for: ${number(tol, 2)}` : "", x: step, y: residual.map(log),
      limit: tol > 0 ? log(tol) : undefined, marks: (low, high) => ticks(low, high, 1), write: (v) => number(10 ** v, 2), read: (i) => `after step ${step[i]}: ${number(residual[i], 3)}`,
    });
  },
  effects, slices,
  residuals: (rows) => makeTable(place("residual-table"), "cells", ["Cell", "X", "Q", "X − Q", "residual"], 0, rows.map(([cell, x, q, residual]) => [cell, x, q, x - q, residual])),
  path: ({ n_params: sizes, ...columns }) => {
    for (const [name, title] of [["held_out", "Loss on what was held out"], ["kl", "KL(P, Q) in nats"], ["rmse", "Root mean square error"], ["bic", "BIC"]]) {
      const y = numbers(columns[name] || []), read = (i) => `${number(sizes[i])} parameters: ${number(y[i], 5)}`;
      if (y.some(Number.isFinite)) chart(place("path-charts"), { title, x: sizes, y, chosen: y.length - 1, write: compact, read });
    }
  },
  parameters: (rows) => makeTable(place("parameter-table"), "parameters", ["No.", "Acts on", "theta", "eta", "factor"], 1, rows.map((row) => [...row, Math.exp(row[2])])),
};
for (const name of Object.keys(draw)) {
  const section = place(name), note = data.notes[name];
  if (data[name]) draw[name](data[name]);
  else if (note) [...section.children].slice(1).forEach((part) => part.remove());
  else { section.remove(); document.querySelector(`a[href="#${name}"]`)?.remove(); }
  if (note) add(section, "p", { class: "note" }, note);
}
const button = place("theme");
const show = () => {
  button.textContent = dark() ? "Light" : "Dark";
  button.setAttribute("aria-pressed", String(dark()));
  redraw.forEach((again) => again());
};
button.addEventListener("click", () => { document.documentElement.dataset.theme = dark() ? "light" : "dark"; show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
show();
}
