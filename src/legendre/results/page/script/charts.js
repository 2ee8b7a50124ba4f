// Line charts.

const WIDE = 360, HIGH = 210, LEFT = 46, RIGHT = 12, TOP = 10, BOTTOM = 26;

function niceTicks(low, high, most = 5) {
  const raw = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((v) => v * power).find((v) => v >= raw);
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) out.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return out;
}

function factorTicks(low, high) { // of logarithms: where the factors are plain numbers
  const out = [];
  for (let power = Math.floor(low / Math.LN10); power <= high / Math.LN10; power++) {
    for (const v of [1, 2, 5]) out.push(Math.log(v) + power * Math.LN10);
  }
  let inside = out.filter((v) => v >= low - 1e-9 && v <= high + 1e-9);
  if (inside.length > 7) inside = inside.filter((v) => Math.abs(v / Math.LN10 - Math.round(v / Math.LN10)) < 1e-9);
  while (inside.length > 7) inside = inside.filter((_, i) => i % 2 === 0);
  if (inside.length < 3) return niceTicks(Math.exp(low), Math.exp(high), 4).filter((v) => v > 0).map(Math.log);
  return inside;
}

function powerTicks(low, high) {
  const step = Math.max(1, Math.ceil((high - low) / 6));
  const out = [];
  for (let v = Math.ceil(low / step) * step; v <= high + 1e-9; v += step) out.push(v);
  return out;
}

// options: title, note, x, y, ticks, tickText, read(i), names (levels), points, stems, base, limit, chosen, ends
function chart(parent, options) {
  const figure = add(parent, "figure");
  const head = add(figure, "h3", {}, options.title);
  if (options.note) add(head, "span", {}, options.note);
  const svg = add(figure, "svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, tabindex: "0", role: "img", "aria-label": options.title });
  const caption = add(figure, "figcaption", { "aria-live": "polite" }, options.caption || "");
  const known = options.y.filter((v) => v !== null && Number.isFinite(v));
  const also = [options.base, options.limit].filter((v) => v !== undefined && v !== null && Number.isFinite(v));
  let low = Math.min(...known, ...also), high = Math.max(...known, ...also);
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  low -= room;
  high += room;
  const first = options.x[0], last = options.x[options.x.length - 1];
  const across = (v) => LEFT + (last === first ? 0.5 : (v - first) / (last - first)) * (WIDE - LEFT - RIGHT);
  const up = (v) => HIGH - BOTTOM - ((v - low) / (high - low)) * (HIGH - TOP - BOTTOM);
  for (const tick of options.ticks(low, high)) {
    add(svg, "line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: up(tick), y2: up(tick) });
    add(svg, "text", { x: LEFT - 6, y: up(tick) + 4, "text-anchor": "end" }, options.tickText(tick));
  }
  if (options.base !== undefined) add(svg, "line", { class: "base", x1: LEFT, x2: WIDE - RIGHT, y1: up(options.base), y2: up(options.base) });
  if (options.limit !== undefined) {
    add(svg, "line", { class: "limit", x1: LEFT, x2: WIDE - RIGHT, y1: up(options.limit), y2: up(options.limit) });
    add(svg, "text", { class: "mark", x: LEFT + 4, y: up(options.limit) - 5 }, options.limitText);
  }
  const shown = options.y.map((v, i) => i).filter((i) => options.y[i] !== null && Number.isFinite(options.y[i]));
  if (options.stems) {
    for (const i of shown) add(svg, "line", { class: "stem", x1: across(options.x[i]), x2: across(options.x[i]), y1: up(options.base), y2: up(options.y[i]) });
  } else {
    const path = shown.map((i, n) => `${n ? "L" : "M"}${across(options.x[i]).toFixed(1)} ${up(options.y[i]).toFixed(1)}`).join("");
    add(svg, "path", { class: "curve", d: path });
  }
  if (options.stems || shown.length <= 40) {
    for (const i of shown) add(svg, "circle", { class: "dot", cx: across(options.x[i]), cy: up(options.y[i]), r: shown.length > 60 ? 2 : 3.2 });
  }
  if (options.chosen !== undefined && shown.includes(options.chosen)) {
    add(svg, "circle", { class: "chosen", cx: across(options.x[options.chosen]), cy: up(options.y[options.chosen]), r: 6.5 });
  }
  xTicks(svg, options, across);
  const cursor = add(svg, "line", { class: "cursor", x1: 0, x2: 0, y1: TOP, y2: HIGH - BOTTOM, visibility: "hidden" });
  let at = options.x.length - 1;
  const read = (i) => {
    at = Math.max(0, Math.min(options.x.length - 1, i));
    const x = across(options.x[at]);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    caption.textContent = options.read(at);
  };
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    caption.textContent = options.caption || "";
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDE;
    let best = 0;
    options.x.forEach((v, i) => { if (Math.abs(across(v) - x) < Math.abs(across(options.x[best]) - x)) best = i; });
    read(best);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("focus", () => { if (svg.matches(":focus-visible")) read(at); });
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!move) return;
    event.preventDefault();
    read(at + move);
  });
  return figure;
}

function xTicks(svg, options, across) {
  if (!options.names) {
    const whole = niceTicks(options.x[0], options.x[options.x.length - 1], 6).filter(Number.isInteger);
    for (const v of whole) add(svg, "text", { x: across(v), y: HIGH - 8, "text-anchor": "middle" }, number(v));
    return;
  }
  const n = options.x.length;
  const name = (i) => options.names[i];
  const widest = Math.max(...options.x.map((_, i) => Math.min(name(i).length, 14)));
  const most = Math.max(2, Math.min(n, Math.floor((WIDE - LEFT - RIGHT) / (6.4 * widest + 14))));
  const step = Math.max(1, Math.ceil((n - 1) / Math.max(1, most - 1)));
  let edge = -Infinity;
  for (let i = 0; i < n; i += step) {
    const x = across(options.x[i]), text = shorten(name(i), 14), half = 3.2 * text.length;
    const left = Math.max(LEFT - 20, Math.min(WIDE - 2 * half - 2, x - half));
    if (left < edge + 8) continue;
    edge = left + 2 * half;
    add(svg, "text", { x: left + half, y: HIGH - 8, "text-anchor": "middle" }, text);
  }
}
