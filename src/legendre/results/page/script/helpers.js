// Small helpers; `data` is what the page is about, and `redraw` lists what is drawn again when the colours change.

const data = JSON.parse(document.getElementById("data").textContent);
const SVG = document.querySelector("svg").namespaceURI;
const redraw = []; // what is drawn again when the colours change

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

function short(value) { // for the ticks of an axis: 1.5M
  if (Math.abs(value) < 1e4 || Math.abs(value) >= 1e15) return number(value, 3);
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(value).replace("-", "−");
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
