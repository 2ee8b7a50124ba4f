// What each section draws, and the button that changes the colours.

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
    const words = line.levels.map((level, i) => `${line.name} ${level}: ${factorText(line.values[i])}`);
    chart(place("effect-lines"), {
      title: line.name, note: percent(line.share),
      x: line.values.map((_, i) => i), y: line.values, names: line.levels, base: 0, stems: !line.ordered,
      ticks: factorTicks, tickText: (v) => "×" + number(Math.exp(v), 2), read: (i) => words[i],
    });
  }
  for (const map of data.effects.maps) effectMap(map);
}

function factorText(value) { // of a logarithm
  return value === null || Number.isNaN(value) ? "hardly any data, no factor" : `× ${number(Math.exp(value), 3)}`;
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
    const factor = factorText(values[r * columns + c]);
    caption.textContent = `${map.names[0]} ${map.levels[0][r]}, ${map.names[1]} ${map.levels[1][c]}: ${factor}`;
  });
  axisBelow(figure)(map.names[1], map.levels[1]);
  const scale = makeScale(figure);
  const caption = add(figure, "figcaption", { "aria-live": "polite" });
  const draw = () => {
    picture.draw(rows, columns, (r, c) => {
      const value = values[r * columns + c];
      return Number.isNaN(value) ? nothing() : colourOf(signed(), 0.5 + value / (2 * most));
    });
    scale(signed(), [-most, 0, most].map((v) => "×" + number(Math.exp(v), 2)));
  };
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
      title, x: sizes, y: values, ticks: niceTicks, tickText: short, chosen: sizes.length - 1,
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
