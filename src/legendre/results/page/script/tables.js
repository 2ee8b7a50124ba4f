// Tables that sort and filter.

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
