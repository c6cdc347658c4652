// Numbers as a person writes them, and pieces of the page.  Whatever comes from results goes through `text`
// nodes (`element`) or `plotText`: a mixer called <script> is a word.

/** A piece of the page: element("td", {class: "number"}, "0.5").  Properties with a function are listeners. */
function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (typeof value === "boolean") made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);

/** For hovers and labels in a plot, where plotly reads some tags. */
const plotText = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const count = (number) => (number === null ? "-" : Math.round(number).toLocaleString("en-US"));
const share = (number) => (number === null ? "-" : number.toFixed(3));
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** Three digits: 0.00316, 1.2e+9. */
function short(number) {
  if (number === null) return "-";
  return Math.abs(number) >= 1e5 ? number.toExponential(2).replace("+", "") : String(Number(number.toPrecision(3)));
}

function inBytes(number) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (number < 1024) return `${Number(number.toPrecision(4))} ${unit}`;
    number /= 1024;
  }
  return `${Number(number.toPrecision(4))} TiB`;
}

/** A quantity in the manner of its axis. */
function quantity(number, axis) {
  if (number === null) return "-";
  return { count, bytes: inBytes, measured: short }[axis.ticks](number);
}

/** What a point is, within its series: "d_model=64 feature_dim=16". */
const knobsOf = (point) => `d_model=${point.d_model} ${point.knobs}`.trim();

/** As Python's "%.6g", for a CSV equal to that of analysis.pareto. */
function sixDigits(number) {
  if (number === 0) return "0";
  const [digits, power] = number.toExponential(5).split("e");
  const exponent = Number(power);
  const trimmed = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent >= -4 && exponent < 6) return trimmed(number.toFixed(5 - exponent));
  const sign = exponent < 0 ? "-" : "+";
  return `${trimmed(digits)}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
}
