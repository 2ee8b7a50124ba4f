// The slice viewer: X, Q and X - Q, a slider over one mode.

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
