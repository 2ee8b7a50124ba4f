// Colours: one scale for amounts, and one for signed numbers that is white in the middle, or black at night.

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

function ramp(stops, n = 256) { // n colours through (lightness, chroma, hue)
  const out = [];
  for (let i = 0; i < n; i++) {
    const at = (i / (n - 1)) * (stops.length - 1);
    const k = Math.min(Math.floor(at), stops.length - 2);
    out.push(rgb(...stops[k].map((v, j) => v + (at - k) * (stops[k + 1][j] - v))));
  }
  return out;
}

const RISING = ramp([[0.17, 0.06, 290], [0.36, 0.12, 268], [0.56, 0.11, 225], [0.77, 0.12, 165], [0.97, 0.11, 108]]);
const SIGNED_LIGHT = [ // purple, white, orange
  ...ramp([[0.36, 0.17, 300], [0.7, 0.12, 300], [0.99, 0, 300]], 128),
  ...ramp([[0.99, 0, 62], [0.8, 0.13, 62], [0.48, 0.14, 48]], 128),
];
const SIGNED_DARK = [
  ...ramp([[0.86, 0.11, 300], [0.56, 0.14, 300], [0.24, 0, 300]], 128),
  ...ramp([[0.24, 0, 58], [0.6, 0.13, 58], [0.9, 0.11, 80]], 128),
];

const signed = () => (dark() ? SIGNED_DARK : SIGNED_LIGHT);
const nothing = () => (dark() ? [58, 64, 74] : [214, 212, 206]); // cells without a number

function colourOf(table, share) {
  return table[Math.max(0, Math.min(255, Math.round(255 * share)))];
}
