// Pictures of tables.

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
