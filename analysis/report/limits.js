// What no model can do, and what chance gives: lines with their names beside them.

const FULL = 0.99; // where a bound no longer binds

/** The region above the first bound, lines for fewer bits a scalar, and the heuristic. */
function bounds(view) {
  if (!boundsKnown(view)) return [];
  const looks = [{ width: 1.4 }, { width: 1.1, dash: "dash" }, { width: 1.1, dash: "dot" }];
  return view.axis.bounds.flatMap((label, place) => {
    const { x, y } = binding(view, label), heuristic = place === view.axis.bounds.length - 1;
    const look = heuristic ? { color: LOOK.heuristic, width: 1.4, dash: "longdash" } : { color: LOOK.bound, ...looks[place] };
    const line = quiet({ x, y, mode: "lines", line: look, hoverinfo: "text", text: y.map((at) => `${label}: ${share(at)}`) });
    if (place) return [line];
    const top = quiet({ x, y: x.map(() => 1), mode: "lines", line: { width: 0 } });
    return [top, { ...line, fill: "tonexty", fillcolor: LOOK.forbidden }];
  });
}

const boundsKnown = (view) => Boolean(view.bound && view.setting.bounds.states && view.slices.length && view.axis.bounds.length);

/** A bound as far as it binds, on the axis that is shown. */
function binding(view, label) {
  const { states } = view.setting.bounds;
  const whole = boundOf(view, label), end = whole.findIndex((at) => at >= FULL) + 1 || states.length;
  return { x: states.slice(0, end).map((state) => state * view.axis.per_scalar), y: whole.slice(0, end) };
}

/** A bound at each of its states: the mean over the slices in view. */
function boundOf(view, label) {
  const { states, lines } = view.setting.bounds;
  const bySlice = view.slices.map((slice) => lines[label][view.split][slice]);
  return states.map((_, at) => mean(bySlice.map((line) => line[at])));
}

/** Chance where it is drawn, else null. */
const chance = (view) => (view.bound ? chanceOf(view) : null);

function chanceLine(view, range) {
  const at = chance(view);
  if (at === null) return [];
  return [quiet({ x: range, y: [at, at], mode: "lines", line: { color: LOOK.grey, width: 1.1, dash: "dashdot" } })];
}

/** The names of the lines, where they are in sight and do not cover each other: along a bound, and at an end of chance. */
function limitLabels(view, range, drawn) {
  const look = { showarrow: false, font: { ...font(10), color: LOOK.grey } };
  const at = chance(view), kept = [];
  const along = boundsKnown(view) ? view.axis.bounds.map((label) => ({ ...look, ...beside(binding(view, label), range), text: SAID(label) })) : [];
  for (const each of along.filter((label) => "x" in label)) if (kept.every((other) => !cover(each, other, range))) kept.push(each);
  return [...(at === null ? [] : [{ ...look, ...chanceLabel(view, at, range, drawn) }]), ...kept];
}

const LETTER = 5.4, LINE = 13; // pixels of a small label
const across = () => Math.max(200, (byId("picture").clientWidth || 900) - 72); // pixels of the picture's axis

/** Whether two labels of bounds would stand on each other: turned ones by their line, level ones by their text. */
function cover(one, other, range) {
  const [a, b] = [one, other].map(({ x }) => (x - Math.log10(range[0])) / Math.log10(range[1] / range[0]) * across());
  if (Boolean(one.textangle) !== Boolean(other.textangle)) return false;
  const first = a < b ? one : other;
  return Math.abs(a - b) < (one.textangle ? LINE : first.text.length * LETTER);
}

/** Below or above the line, at its right or its left: where fewest points are. */
function chanceLabel(view, at, range, drawn) {
  const text = narrow() ? `chance (${share(at)})` : `${view.setting.guess} (${share(at)})`, wide = (text.length * LETTER) / across();
  const places = drawn.flatMap((point) => spotsOfPoint(point).map(({ y }) => [Math.log10(point[view.axis.column] / range[0]) / Math.log10(range[1] / range[0]), y]));
  const spots = [[1, "top"], [1, "bottom"], [0, "top"], [0, "bottom"]].map(([x, yanchor]) => {
    const near = ([px, py]) => (x ? px > 1 - wide - 0.02 : px < wide + 0.02) && (yanchor === "top" ? py < at + 0.02 && py > at - 0.07 : py > at - 0.02 && py < at + 0.07);
    return { x, xref: "paper", xanchor: x ? "right" : "left", y: at, yanchor, text, hidden: places.filter(near).length };
  });
  const { hidden, ...best } = spots.reduce((a, b) => (b.hidden < a.hidden ? b : a));
  return best;
}

const SAID = (label) => (label.startsWith("no model") ? label : "outer-product memory (a heuristic)");

/** Left of a line where it climbs, and turned as it is; above the picture where it is all but level; {} out of sight. */
function beside({ x, y }, [low, high]) {
  const seen = inside(x, low, high);
  if (!seen.length) return {};
  const middle = seen.reduce((best, each) => (Math.abs(y[each] - 0.5) < Math.abs(y[best] - 0.5) ? each : best));
  if (y[middle] < 0.75) return { x: Math.log10(x[middle]), y: Math.max(y[middle], 0.35), xanchor: "right", textangle: -90 };
  return { x: Math.log10(x[seen[0]]), yref: "paper", y: 1, xanchor: "left", yanchor: "bottom" };
}

const inside = (values, low, high) => values.map((_, place) => place).filter((place) => values[place] > low && values[place] < high);

/** The lines that are in sight, and up to where each binds; the hard one mostly lies left of every trained model. */
function boundsInWords(view) {
  if (!boundsKnown(view)) return "";
  const { xaxis, yaxis } = byId("picture").layout, range = xaxis.range.map((power) => 10 ** power);
  const ends = view.axis.bounds.flatMap((label) => {
    const { x, y } = binding(view, label), seen = inside(x, ...range).some((place) => inside([y[place]], ...yaxis.range).length);
    return seen ? [`${SAID(label)}, ${quantity(Math.ceil(x.at(-1)), view.axis)}`] : [];
  });
  return ends.length ? `Bounds in sight, and up to where each binds: ${ends.join("; ")}.` : "No bound is in sight.";
}
