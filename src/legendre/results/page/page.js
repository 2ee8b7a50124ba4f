"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = document.querySelector("svg").namespaceURI;
  const redraw = []; // what is drawn again when the colours change

  // --- small helpers ---------------------------------------------------------------------------------------------

  function add(parent, tag, attributes = {}, text = null) {
    const svg = parent.namespaceURI === SVG || tag === "svg";
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== null) node.textContent = text;
    parent.appendChild(node);
    return node;
  }

  function place(id) {
    return document.getElementById(id);
  }

  function number(value, digits = 4) {
    if (value === null || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const size = Math.abs(value);
    let text;
    if (size >= 1e7 || size < 1e-4) {
      const [mantissa, power] = value.toExponential(Math.max(0, digits - 2)).split("e");
      text = Number(mantissa) + "e" + Number(power);
    } else if (Number.isInteger(value)) {
      text = value.toLocaleString("en");
    } else {
      const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
      text = Number(value.toFixed(Math.min(places, 20))).toLocaleString("en", { maximumFractionDigits: 20 });
    }
    return text.replace("-", "−");
  }

  function percent(share) {
    return (100 * share).toFixed(1) + " %";
  }

  function shorten(text, most) {
    return text.length <= most ? text : text.slice(0, Math.max(1, most - 1)) + "…";
  }

  function unpack(table) {
    const bytes = atob(table.codes);
    const out = new Float64Array(bytes.length / 2);
    for (let i = 0; i < out.length; i++) {
      const code = bytes.charCodeAt(2 * i) + 256 * bytes.charCodeAt(2 * i + 1);
      if (code === 65535) out[i] = NaN;
      else if (table.unit !== undefined) out[i] = table.unit * Math.expm1(table.step * code);
      else out[i] = table.low + table.step * code;
    }
    return out;
  }

  // --- colours ---------------------------------------------------------------------------------------------------

  function dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function rgb(lightness, chroma, hue) { // from OKLCH, in which equal steps look equal
    const angle = (hue * Math.PI) / 180;
    const a = chroma * Math.cos(angle);
    const b = chroma * Math.sin(angle);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    return [
      4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
      -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
      -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
    ].map((v) => {
      const u = Math.min(1, Math.max(0, v));
      return Math.round(255 * (u <= 0.0031308 ? 12.92 * u : 1.055 * u ** (1 / 2.4) - 0.055));
    });
  }

  function ramp(stops) { // 256 colours through (lightness, chroma, hue)
    const out = [];
    for (let i = 0; i < 256; i++) {
      const at = (i / 255) * (stops.length - 1);
      const k = Math.min(Math.floor(at), stops.length - 2);
      out.push(rgb(...stops[k].map((v, j) => v + (at - k) * (stops[k + 1][j] - v))));
    }
    return out;
  }

  const RISING = ramp([[0.17, 0.06, 290], [0.36, 0.12, 268], [0.56, 0.11, 225], [0.77, 0.12, 165], [0.97, 0.11, 108]]);
  const SIGNED_LIGHT = ramp([[0.38, 0.17, 300], [0.68, 0.12, 300], [0.985, 0, 300], [0.985, 0, 62], [0.78, 0.13, 62], [0.5, 0.14, 48]]);
  const SIGNED_DARK = ramp([[0.84, 0.12, 300], [0.58, 0.14, 300], [0.25, 0, 300], [0.25, 0, 58], [0.62, 0.13, 58], [0.88, 0.12, 75]]);

  const signed = () => (dark() ? SIGNED_DARK : SIGNED_LIGHT);
  const nothing = () => (dark() ? [58, 64, 74] : [214, 212, 206]); // cells without a number

  function colourOf(table, share) {
    return table[Math.max(0, Math.min(255, Math.round(255 * share)))];
  }

  // --- maps ------------------------------------------------------------------------------------------------------

  // A picture of a table that can be pointed at, or walked through with the arrow keys.
  function makeMap(parent, label, tallest, onRead) {
    const frame = add(parent, "div", { class: "map", tabindex: "0", role: "img", "aria-label": label });
    const canvas = add(frame, "canvas");
    const cross = add(frame, "div", { class: "cross" });
    const map = { frame, rows: 1, columns: 1, at: null };
    map.draw = (rows, columns, colour) => {
      Object.assign(map, { rows, columns });
      canvas.width = columns;
      canvas.height = rows;
      canvas.style.aspectRatio = String(Math.min(1.9, Math.max(tallest, columns / rows)));
      const context = canvas.getContext("2d");
      const image = context.createImageData(columns, rows);
      for (let r = 0, i = 0; r < rows; r++) {
        for (let c = 0; c < columns; c++, i += 4) {
          const [red, green, blue] = colour(r, c);
          image.data[i] = red;
          image.data[i + 1] = green;
          image.data[i + 2] = blue;
          image.data[i + 3] = 255;
        }
      }
      context.putImageData(image, 0, 0);
    };
    map.mark = (at) => {
      map.at = at;
      cross.style.display = at ? "block" : "none";
      if (!at) return;
      const [r, c] = at;
      cross.style.left = `calc(${(100 * c) / map.columns}% - 2px)`;
      cross.style.top = `calc(${(100 * r) / map.rows}% - 2px)`;
      cross.style.width = `calc(${100 / map.columns}% + 4px)`;
      cross.style.height = `calc(${100 / map.rows}% + 4px)`;
    };
    const cellAt = (event) => {
      const box = canvas.getBoundingClientRect();
      const inside = (v, n) => Math.max(0, Math.min(n - 1, Math.floor(v * n)));
      return [
        inside((event.clientY - box.top) / box.height, map.rows),
        inside((event.clientX - box.left) / box.width, map.columns),
      ];
    };
    for (const kind of ["pointermove", "pointerdown"]) frame.addEventListener(kind, (event) => onRead(cellAt(event)));
    frame.addEventListener("focus", () => onRead(map.at || [0, 0]));
    frame.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const [r, c] = map.at || [0, 0];
      onRead([
        Math.max(0, Math.min(map.rows - 1, r + move[0])),
        Math.max(0, Math.min(map.columns - 1, c + move[1])),
      ]);
    });
    return map;
  }

  function axisBelow(parent) {
    const axis = add(parent, "div", { class: "axis" });
    const parts = ["", "of", ""].map((kind) => add(axis, "span", kind ? { class: kind } : {}));
    return (name, levels) => {
      parts[0].textContent = shorten(levels[0], 18);
      parts[1].textContent = name;
      parts[2].textContent = levels.length > 1 ? shorten(levels[levels.length - 1], 18) : "";
    };
  }

  function sideAbove(parent) {
    const side = add(parent, "div", { class: "side" });
    return (name, levels) => {
      side.textContent = "";
      add(side, "b", {}, name);
      const last = levels[levels.length - 1];
      side.append(levels.length > 1 ? `, from ${shorten(levels[0], 18)} down to ${shorten(last, 18)}` : "");
    };
  }

  function makeScale(parent) {
    const box = add(parent, "div", { class: "scale", "aria-hidden": "true" });
    const bar = add(box, "div", { class: "ramp" });
    const axis = add(box, "div", { class: "axis" });
    const parts = [0, 1, 2].map(() => add(axis, "span"));
    return (table, texts) => {
      const stops = [];
      for (let i = 0; i <= 16; i++) stops.push(`rgb(${colourOf(table, i / 16).join(" ")})`);
      bar.style.background = `linear-gradient(90deg, ${stops.join(", ")})`;
      parts.forEach((part, i) => { part.textContent = texts[i]; });
    };
  }

  // --- line charts -----------------------------------------------------------------------------------------------

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

  // --- tables ----------------------------------------------------------------------------------------------------

  const PAGE = 10, MORE = 50; // rows that are shown, and how many more at a time

  function makeTable(parent, columns, rows, what, filterable) {
    let sorted = null, down = true, shown = PAGE, text = "";
    const tools = add(parent, "div", { class: "tools" });
    if (filterable) {
      const label = add(tools, "label", {}, "Filter");
      const input = add(label, "input", { type: "search", placeholder: "part of a name", autocomplete: "off", spellcheck: "false" });
      input.addEventListener("input", () => {
        text = input.value.trim().toLowerCase();
        shown = PAGE;
        draw();
      });
    }
    const count = add(tools, "span", { class: "note", role: "status" });
    const wide = add(parent, "div", { class: "wide", tabindex: "0", role: "region", "aria-label": what });
    const table = add(wide, "table");
    const head = add(add(table, "thead"), "tr");
    const cells = columns.map((column, k) => {
      const cell = add(head, "th", { scope: "col", class: column.number ? "number" : "text" });
      const button = add(cell, "button", { type: "button" });
      button.addEventListener("click", () => {
        down = sorted === k ? !down : Boolean(column.number);
        sorted = k;
        draw();
      });
      return { cell, button };
    });
    const body = add(table, "tbody");
    const more = add(parent, "div", { class: "more" });
    const words = (row) => columns.map((column, k) => (column.number ? "" : String(row[k]).toLowerCase())).join(" ");
    const searched = rows.map(words);
    function compare(a, b) {
      const one = a[sorted], other = b[sorted];
      if (one === null || other === null) return (one === null) - (other === null);
      const by = columns[sorted].number ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
      return down ? -by : by;
    }
    function draw() {
      let kept = rows.filter((_, i) => !text || searched[i].includes(text));
      if (sorted !== null) kept = [...kept].sort(compare);
      cells.forEach(({ cell, button }, k) => {
        button.textContent = columns[k].name + (sorted === k ? (down ? " ↓" : " ↑") : "");
        if (sorted === k) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      });
      body.textContent = "";
      for (const row of kept.slice(0, shown)) {
        const line = add(body, "tr");
        columns.forEach((column, k) => add(line, "td", { class: column.number ? "number" : "text" }, column.number ? (column.write || number)(row[k]) : row[k]));
      }
      count.textContent = kept.length === rows.length ? `${rows.length.toLocaleString("en")} ${what}` : `${kept.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} ${what}`;
      more.textContent = "";
      if (kept.length > shown) {
        const button = add(more, "button", { type: "button" }, `Show ${Math.min(MORE, kept.length - shown)} more`);
        button.addEventListener("click", () => {
          shown += MORE;
          draw();
        });
        add(more, "span", {}, `${shown} of ${kept.length.toLocaleString("en")} are shown`);
      }
    }
    draw();
  }

  // --- sections --------------------------------------------------------------------------------------------------

  function history() {
    const { step, residual, tol } = data.history;
    if (step.length < 2) return;
    const least = Math.min(...residual.filter((v) => v > 0), tol > 0 ? tol : Infinity);
    const log = (v) => Math.log10(v > 0 ? v : least / 10);
    chart(place("history"), {
      title: "Residual after each step",
      x: step, y: residual.map(log), ticks: powerTicks, tickText: (v) => number(10 ** v, 2),
      limit: tol > 0 ? log(tol) : undefined, limitText: `asked for: ${number(tol, 2)}`,
      read: (i) => `after step ${step[i]}: ${number(residual[i], 3)}`,
    });
  }

  function effects() {
    const shares = place("shares");
    const widest = Math.max(...data.effects.shares.map(([, share]) => share), 1e-9);
    for (const [name, share] of data.effects.shares) {
      add(shares, "div", {}, name);
      add(add(shares, "div"), "i").style.width = `${(100 * share) / widest}%`;
      add(shares, "div", {}, percent(share));
    }
    for (const line of data.effects.lines) {
      const words = line.levels.map((level, i) => `${line.name} ${level}: × ${number(Math.exp(line.values[i]), 3)}`);
      chart(place("effect-lines"), {
        title: line.name, note: percent(line.share),
        x: line.values.map((_, i) => i), y: line.values, names: line.levels, base: 0, stems: !line.ordered,
        ticks: factorTicks, tickText: (v) => "×" + number(Math.exp(v), 2), read: (i) => words[i],
      });
    }
    for (const map of data.effects.maps) effectMap(map);
  }

  function effectMap(map) {
    const figure = add(place("effect-maps"), "figure");
    const head = add(figure, "h3", {}, map.names.join(" × "));
    add(head, "span", {}, percent(map.share));
    const values = unpack(map.values), columns = map.levels[1].length, rows = map.levels[0].length;
    const most = map.most || 1;
    sideAbove(figure)(map.names[0], map.levels[0]);
    const picture = makeMap(figure, map.names.join(" and "), 1.1, (at) => {
      picture.mark(at);
      const [r, c] = at;
      const factor = number(Math.exp(values[r * columns + c]), 3);
      caption.textContent = `${map.names[0]} ${map.levels[0][r]}, ${map.names[1]} ${map.levels[1][c]}: × ${factor}`;
    });
    axisBelow(figure)(map.names[1], map.levels[1]);
    const scale = makeScale(figure);
    const caption = add(figure, "figcaption", { "aria-live": "polite" });
    const draw = () => {
      picture.draw(rows, columns, (r, c) => colourOf(signed(), 0.5 + values[r * columns + c] / (2 * most)));
      scale(signed(), [-most, 0, most].map((v) => "×" + number(Math.exp(v), 2)));
    };
    redraw.push(draw);
    draw();
  }

  function viewer() {
    const { modes, levels, shape, fixed, start } = data.slices;
    const x = unpack(data.slices.x), q = unpack(data.slices.q);
    const strides = [shape[1] * shape[2], shape[2], 1];
    const state = { axes: [0, 1, 2], level: start, flip: false, same: true, at: null };
    const parent = place("viewer");
    const tools = add(parent, "div", { class: "tools" });
    let slider = null, output = null, choose = null;
    if (shape[0] > 1 || !fixed) {
      if (!fixed) {
        choose = add(add(tools, "label", {}, "Slices of"), "select", { id: "slice-mode" });
        modes.forEach((mode, k) => { if (mode !== null) add(choose, "option", { value: k }, mode); });
      }
      const label = add(tools, "label", { class: "slide" }, choose ? "" : modes[0]);
      slider = add(label, "input", { type: "range", id: "slice", min: 0, step: 1, "aria-label": "slice" });
      output = add(label, "output", { for: "slice" });
    }
    const turn = add(tools, "button", { type: "button" }, "Swap axes");
    const flip = add(tools, "button", { type: "button", "aria-pressed": "false" }, "Flip rows");
    const same = add(tools, "label");
    const box = add(same, "input", { type: "checkbox" });
    box.checked = true;
    same.append("one scale for all slices");
    if (!slider) same.remove();

    const three = add(parent, "div", { class: "three" });
    const titles = ["X", "Q", "X − Q"];
    const reading = (at) => {
      state.at = at;
      read();
    };
    const parts = titles.map((title) => {
      const figure = add(three, "figure");
      add(figure, "h3", {}, title);
      const side = sideAbove(figure);
      const map = makeMap(figure, title, 0.8, reading);
      return { map, side, below: axisBelow(figure), scale: makeScale(figure) };
    });
    const words = add(parent, "p", { class: "read", "aria-live": "polite", id: "reading" });

    const left = x.map((v, i) => { // differences below what 16 bits resolve are none
      const difference = v - q[i];
      return Math.abs(difference) < 2e-4 * (Math.abs(v) + Math.abs(q[i])) ? 0 : difference;
    });
    const known = (values) => values.filter((v) => Number.isFinite(v));
    const largest = (values) => known(values).reduce((a, b) => Math.max(a, b), 0);
    const robust = (values) => { // the size that all but one in 500 stay below
      const sizes = known(values).map(Math.abs).sort();
      return sizes.length ? sizes[Math.floor((sizes.length - 1) * 0.998)] || sizes[sizes.length - 1] : 0;
    };
    const everywhere = { most: Math.max(largest(x), largest(q)), left: robust(left) };
    const mean = known(q).reduce((a, b) => a + b, 0) / Math.max(1, known(q).length);
    const power = mean < 0.12 * everywhere.most ? 0.5 : 1; // a few large cells would leave all others dark

    function place3(r, c) {
      const [s, rows, columns] = state.axes;
      const row = state.flip ? shape[rows] - 1 - r : r;
      return state.level * strides[s] + row * strides[rows] + c * strides[columns];
    }

    function draw() {
      const [s, rows, columns] = state.axes;
      const nr = shape[rows], nc = shape[columns];
      let { most, left: spread } = everywhere;
      if (!state.same) {
        const places = [];
        for (let r = 0; r < nr; r++) for (let c = 0; c < nc; c++) places.push(place3(r, c));
        most = Math.max(largest(places.map((i) => x[i])), largest(places.map((i) => q[i])));
        spread = robust(Float64Array.from(places, (i) => left[i]));
      }
      most = most || 1;
      spread = spread || 1;
      const names = state.flip ? [...levels[rows]].reverse() : levels[rows];
      parts.forEach(({ map, side, below, scale }, k) => {
        const values = [x, q, left][k];
        map.draw(nr, nc, (r, c) => {
          const v = values[place3(r, c)];
          if (!Number.isFinite(v)) return nothing();
          return k < 2 ? colourOf(RISING, Math.max(0, v / most) ** power) : colourOf(signed(), 0.5 + v / (2 * spread));
        });
        side(modes[rows] || "", names);
        below(modes[columns], levels[columns]);
        if (k < 2) scale(RISING, [0, 0.5 ** (1 / power) * most, most].map((v) => number(v, 3)));
        else scale(signed(), [number(-spread, 3), "0", number(spread, 3)]);
      });
      if (slider) {
        slider.max = shape[s] - 1;
        slider.value = state.level;
        output.textContent = levels[s][state.level];
        slider.setAttribute("aria-valuetext", `${modes[s]} ${levels[s][state.level]}`);
      }
      read();
    }

    function read() {
      const [s, rows, columns] = state.axes;
      if (state.at && (state.at[0] >= shape[rows] || state.at[1] >= shape[columns])) state.at = null;
      parts.forEach(({ map }) => map.mark(state.at));
      if (!state.at) {
        words.textContent = "";
        return;
      }
      const [r, c] = state.at;
      const i = place3(r, c);
      const at = { [s]: state.level, [rows]: state.flip ? shape[rows] - 1 - r : r, [columns]: c };
      const cell = [0, 1, 2].filter((k) => modes[k] !== null).map((k) => `${modes[k]} ${levels[k][at[k]]}`).join(", ");
      words.textContent = `${cell}:  X ${number(x[i])},  Q ${number(q[i])},  X − Q ${number(left[i], 3)}`;
    }

    if (slider) slider.addEventListener("input", () => { state.level = Number(slider.value); draw(); });
    if (choose) {
      choose.addEventListener("change", () => {
        const s = Number(choose.value);
        state.axes = [s, ...[0, 1, 2].filter((k) => k !== s)];
        state.level = s === 0 ? start : 0;
        draw();
      });
    }
    turn.addEventListener("click", () => {
      const [s, rows, columns] = state.axes;
      if (modes[rows] === null) return;
      state.axes = [s, columns, rows];
      state.at = null;
      draw();
    });
    flip.addEventListener("click", () => {
      state.flip = !state.flip;
      flip.setAttribute("aria-pressed", String(state.flip));
      draw();
    });
    box.addEventListener("change", () => { state.same = box.checked; draw(); });
    redraw.push(draw);
    draw();
  }

  function path() {
    const { n_params: sizes } = data.path;
    const names = { kl: "KL(P, Q) in nats", rmse: "Root mean square error", bic: "BIC" };
    for (const [name, title] of Object.entries(names)) {
      const values = data.path[name];
      if (values.every((v) => v === null)) continue;
      chart(place("path-charts"), {
        title, x: sizes, y: values, ticks: niceTicks, tickText: (v) => number(v, 3), chosen: sizes.length - 1,
        caption: `chosen: ${sizes[sizes.length - 1].toLocaleString("en")} parameters, ${number(values[values.length - 1])}`,
        read: (i) => `${sizes[i].toLocaleString("en")} parameters: ${number(values[i], 5)}`,
      });
    }
  }

  function residuals() {
    const rows = data.residuals.rows.map(([cell, x, q, root]) => [cell, x, q, x - q, root]);
    const columns = [
      { name: "Cell" }, { name: "X", number: true }, { name: "Q", number: true },
      { name: "X − Q", number: true }, { name: "signed root", number: true, write: (v) => number(v, 3) },
    ];
    makeTable(place("residual-table"), columns, rows, "cells", false);
  }

  function parameters() {
    const rows = data.parameters.rows.map(([i, cell, theta, eta]) => [i, cell, theta, eta, Math.exp(theta)]);
    const columns = [
      { name: "No.", number: true }, { name: "Acts on" }, { name: "theta", number: true },
      { name: "eta", number: true }, { name: "factor", number: true },
    ];
    makeTable(place("parameter-table"), columns, rows, "parameters", true);
  }

  function theme() {
    const button = place("theme");
    const show = () => {
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
      button.setAttribute("aria-pressed", String(dark()));
      redraw.forEach((draw) => draw());
    };
    button.addEventListener("click", () => {
      document.documentElement.dataset.theme = dark() ? "light" : "dark";
      show();
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
    show();
  }

  const sections = { history, effects, slices: viewer, residuals, path, parameters };
  for (const [name, draw] of Object.entries(sections)) if (data[name]) draw();
  theme();
})();
