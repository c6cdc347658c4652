// Parallel coordinates: a line a point across its settings and its scores, so that what goes with what can be seen.

const MOST_LINES = 300; // points, the best ones
const mostAxes = () => (narrow() ? 1 : 7); // settings that are drawn until others are ticked
let parallelBoxes = null, parallelOf = null; // of which keys there is an axis, and for which setting
const brushes = new Map(); // name of an axis -> what a box over it held: [least, most] of numbers, or the words

/** The axes that can be drawn: [name, value(point) -> number or text or null]. */
function dimensions() {
  const { axis } = view;
  const keys = [...view.keys.keys()].filter((key) => key !== "series").map((key) => [key, (point) => valueOf(key, point)]);
  const plain = ([name]) => !/_target_|_partial_|model\.layers/.test(name); // of the others there is an axis when asked
  keys.sort((a, b) => plain(b) - plain(a));
  return [...keys, ["learning rate", (point) => point.lr], [axis.short, (point) => point[axis.column]], ["accuracy", (point) => point.accuracy]];
}

/** point -> whether it lies within what was boxed on each axis. */
function brushed() {
  const axes = new Map(brushes.size ? dimensions() : []), known = [...brushes].filter(([name]) => axes.has(name));
  return (point) => known.every(([name, held]) => {
    const value = axes.get(name)(point) ?? LACKING;
    return typeof held[0] === "number" ? Number(value) >= held[0] && Number(value) <= held[1] : held.includes(String(value));
  });
}

/** A box over axes: what its points have there is all that stays in view. */
function brush(area) {
  if (!area?.points.length) return; // the box that is taken away below
  for (const [place, hits] of Map.groupBy(area.points, (hit) => hit.x)) {
    const [name, value] = parallelShown[place], held = hits.map((hit) => value(points.find((point) => point.place === hit.customdata)) ?? LACKING);
    brushes.set(name, isNumeric(held.map(String)) ? [Math.min(...held), Math.max(...held)] : [...new Set(held.map(String))]);
  }
  Plotly.relayout("parallel", { selections: [] });
  changed();
}

/** What is boxed, each with a button that takes it away. */
function brushChips() {
  byId("brushes").replaceChildren(...[...brushes].map(([name, held]) => {
    const away = element("button", { type: "button", click: () => (brushes.delete(name), changed()), "aria-label": `any ${name}` }, "\u00d7");
    const text = typeof held[0] === "number" ? [...new Set(held)].map(short).join(" to ") : held.join(", ");
    return element("span", { class: "chip" }, `${name}: ${text}`, away);
  }));
}

let parallelShown = []; // the axes that are drawn
function showParallel() {
  if (!byId("by-setting").open || !view.keys.size || !view.axis) return null; // not yet drawn
  const all = dimensions();
  for (const name of brushes.keys()) if (!all.some(([each]) => each === name)) brushes.delete(name);
  brushChips();
  if (parallelOf !== view.setting) {
    parallelOf = view.setting;
    parallelBoxes = boxes("parallel-axes", all.map(([name]) => name), (name) => name, showParallel);
    tick(parallelBoxes, (name) => all.findIndex(([each]) => each === name) < mostAxes() || ["learning rate", view.axis.short, "accuracy"].includes(name));
  }
  const wanted = ticked(parallelBoxes), shown = parallelShown = all.filter(([name]) => wanted.has(name));
  const lines = [...points].sort((a, b) => b.accuracy - a.accuracy).slice(0, MOST_LINES);
  const scales = shown.map(([, value]) => scaleOf(lines.map(value)));
  const traces = lines.reverse().map((point) => parallelLine(point, shown, scales));
  const more = points.length - lines.length;
  byId("parallel-note").textContent = `A line a point, stronger with more accuracy; a click chooses it, a box over an axis keeps what it holds alone.${more > 0 ? ` The best ${MOST_LINES}; ${count(more)} are not drawn.` : ""}`;
  byId("parallel").style.minWidth = `${60 + 84 * shown.length}px`;
  const fresh = !byId("parallel").on;
  const drawn = Plotly.react("parallel", traces, parallelFrame(shown, scales), small());
  if (fresh) byId("parallel").on("plotly_click", ({ points: [hit], event }) => choose(hit.customdata, { more: wantsMore(event) }));
  if (fresh) byId("parallel").on("plotly_selected", brush);
  return drawn;
}

/** {at(value) -> 0 to 1, ticks: [place, text]}: numbers linear, or over their logarithm where they are far apart; words evenly. */
function scaleOf(values) {
  const known = [...new Set(values.filter((value) => value !== null && value !== LACKING))];
  if (known.length && isNumeric(known.map(String))) {
    const low = Math.min(...known), high = Math.max(...known), log = low > 0 && high / low >= FAR;
    const of = (value) => (log ? Math.log(value) : Number(value)), width = of(high) - of(low);
    const at = (value) => (value === null || value === LACKING ? -0.12 : width ? (of(value) - of(low)) / width : 0.5);
    const ends = width ? [low, high] : [low];
    return { at, ticks: [...ends.map((end) => [at(end), short(Number(end))]), ...(values.some((value) => at(value) < 0) ? [[-0.12, LACKING]] : [])] };
  }
  const levels = [...new Set(values.map(String))].sort(), at = (value) => (levels.length === 1 ? 0.5 : levels.indexOf(String(value)) / (levels.length - 1));
  const stride = Math.ceil(levels.length / 12);
  return { at, ticks: levels.filter((_, place) => place % stride === 0).map((level) => [at(level), level.split(".").at(-1).slice(0, 14)]) };
}

function parallelLine(point, shown, scales) {
  const chosen = hueAt(point.place), colour = chosen ?? (encode.colour ? lookOf(view, point).colour : LOOK.dark ? "#9ecbff" : "#0b3c6f");
  return {
    x: shown.map((_, place) => place), y: shown.map(([, value], place) => scales[place].at(value(point))),
    type: "scatter", mode: "lines+markers", marker: { size: 4, color: colour }, customdata: shown.map(() => point.place),
    line: { color: colour, width: chosen ? 3 : 1.2, shape: "spline", smoothing: 0.4 }, opacity: chosen ? 1 : 0.15 + 0.75 * Math.max(0, point.accuracy) ** 2,
    hoverinfo: "text", text: shown.map(([name, value]) => `<b>${plotText(point.series)}</b> ${plotText(knobsOf(point))}<br>accuracy ${share(point.accuracy)}<br>${plotText(name)}: ${plotText(typeof value(point) === "number" ? short(value(point)) : value(point))}`),
  };
}

function parallelFrame(shown, scales) {
  const frame = smallLayout("", ""), words = (name) => name.replace(" ", ". ").split(".").slice(-2).map(plotText).join("<br>");
  Object.assign(frame.xaxis, { title: { text: "" }, tickmode: "array", tickvals: shown.map((_, place) => place), ticktext: shown.map(([name]) => words(name)), range: [-0.3, shown.length - 0.4], showgrid: true, gridcolor: LOOK.rule, showline: false, ticks: "", side: "top", tickangle: 0 });
  Object.assign(frame.yaxis, { title: { text: "" }, range: [-0.18, 1.08], showgrid: false, showticklabels: false });
  Object.assign(frame, { margin: { l: 30, r: 30, t: 44, b: 10 }, dragmode: TOUCH.matches ? false : "select" });
  frame.annotations = scales.flatMap(({ ticks: own }, x) => own.map(([y, text]) => ({ x, y, text: plotText(text), showarrow: false, xanchor: "left", xshift: 4, font: { ...font(9), color: LOOK.grey }, bgcolor: LOOK.paper })));
  return frame;
}
