// Light and dark: the colours of the pictures are those of page.css, and a series' colour is lifted off the paper.

const DARK = matchMedia("(prefers-color-scheme: dark)");
const CONTRAST = 4.5; // of a series' colour against dark paper, at least
let LOOK = {}; // the colours of now

/** Take over what the switch, or else the system, asks for. */
function dress() {
  const asked = byId("theme").value;
  document.documentElement.dataset.theme = asked || (DARK.matches ? "dark" : "light");
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "grey", "grid", "paper", "tint", "frontier", "bound", "heuristic", "forbidden", "faint", "rule"];
  LOOK = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  LOOK.dark = document.documentElement.dataset.theme === "dark";
  shades.clear();
}

const font = (size = 12) => ({ family: 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif', size, color: LOOK.ink });

const shades = new Map();
/** A colour as it is on light paper; on dark paper mixed with white until it can be read. */
function shade(colour) {
  if (!LOOK.dark || !/^#[0-9a-f]{6}$/i.test(colour)) return colour;
  if (!shades.has(colour)) shades.set(colour, lifted(colour));
  return shades.get(colour);
}

function lifted(colour) {
  const mix = (part) => channels(colour).map((channel) => Math.round(channel + (255 - channel) * part));
  let part = 0;
  while (part < 1 && contrast(mix(part), channels(LOOK.paper)) < CONTRAST) part += 0.05;
  return `#${mix(part).map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

/** As WCAG 2 has it, of two colours in channels. */
function contrast(one, other) {
  const luminance = (colour) => {
    const linear = colour.map((channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
