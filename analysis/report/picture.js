// The frontier: accuracy against what the axis says, drawn by plotly; the marks are those of analysis/draw.py.

const INK = "#222222", GREY = "#777777";
const DIVERGED_AT = -0.045; // below zero, so that it is no accuracy
const FULL_VIEW = 0.9995; // a coverage above this bounds nothing
const FULL = 0.99; // where a bound no longer binds
const ROOM = 1.45; // beside the outermost points, as a factor
const MANY = 1500; // points, from which WebGL draws them
const MARKER = 9; // pixels
// pixels around the chosen point: a circle as a path, for plotly refuses negative corners on a log axis
const RING = "M10,0C10,5.5 5.5,10 0,10C-5.5,10 -10,5.5 -10,0C-10,-5.5 -5.5,-10 0,-10C5.5,-10 10,-5.5 10,0Z";
const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
const FONT = { family: 'system-ui, "Segoe UI", "DejaVu Sans", sans-serif', size: 12, color: INK };

/** Draw the points; the zoom stays where it was as long as `view.zoom` is the same. */
function draw(view, points, chosen) {
  const drawn = points.filter((point) => point[view.axis.column] !== null);
  const range = rangeOf(view, drawn);
  const at = (point) => Math.max(point[view.axis.column], 1e-12);
  const layers = [
    ...bounds(view),
    frontierLine(drawn, at, range, view.axis),
    ...(view.lines ? seriesLines(view, drawn, at) : []),
    ...dumbbells(view, drawn),
    coverages(drawn, at),
    ...markers(view, drawn, at),
    edges(drawn, at),
    crosses(view, drawn, at),
  ];
  return Plotly.react("picture", layers, { ...layout(view, drawn, range), shapes: ring(view, points, chosen) }, CONFIG);
}

/** Another point is chosen: the ring alone is drawn anew. */
const encircle = (view, points, chosen) => Plotly.relayout("picture", { shapes: ring(view, points, chosen) });

function rangeOf(view, drawn) {
  const columns = [view.axis.column, ...(view.axis.key === "resident" ? ["state_touched"] : [])];
  const seen = drawn.flatMap((point) => columns.map((column) => point[column])).filter((x) => x > 0);
  const low = seen.reduce((a, b) => Math.min(a, b), Infinity), high = seen.reduce((a, b) => Math.max(a, b), 0);
  return seen.length ? [low / ROOM, high * ROOM] : [1, 1024];
}

const finishedOf = (points) => points.filter((point) => point.diverged < point.seeds);
const seriesOf = (view) => new Map(view.setting.series.map((series) => [series.name, series]));

/** Steps: the best accuracy with at most this much, or where more is better with at least this much. */
function frontierLine(points, at, range, axis) {
  const best = points.filter((point) => point.on_frontier).sort((a, b) => at(a) - at(b) || a.accuracy - b.accuracy);
  const x = best.map(at), y = best.map((point) => point.accuracy);
  if (best.length && axis.more) [x.unshift(range[0]), y.unshift(y[0])];
  else if (best.length) [x.push(range[1]), y.push(y.at(-1))];
  return quiet({
    x, y, mode: "lines",
    line: { color: "rgba(34,34,34,.16)", width: 6, shape: axis.more ? "vh" : "hv" },
  });
}

/** Points of a series by rising x: one line a d_model where it turns another knob, else one over d_model. */
function seriesLines(view, points, at) {
  return [...Map.groupBy(finishedOf(points), (point) => point.series)].map(([name, group]) => {
    const widths = Map.groupBy(group, (point) => point.d_model);
    const lines = widths.size < group.length ? [...widths.values()] : [group];
    const sorted = lines.map((line) => [...line].sort((a, b) => at(a) - at(b) || a.accuracy - b.accuracy));
    return quiet({
      x: sorted.flatMap((line) => [...line.map(at), null]),
      y: sorted.flatMap((line) => [...line.map((point) => point.accuracy), null]),
      mode: "lines", line: { color: seriesOf(view).get(name).colour, width: 1.2 }, opacity: 0.55,
    });
  });
}

/** From what is kept to what one step reads, where the two differ. */
function dumbbells(view, points) {
  if (view.axis.key !== "resident") return [];
  const apart = finishedOf(points).filter((point) => point.state_touched !== point.state_resident);
  return [...Map.groupBy(apart, (point) => point.series)].map(([name, group]) => {
    const { colour, symbol } = seriesOf(view).get(name);
    return quiet({
      x: group.flatMap((point) => [point.state_touched, point.state_resident, null]),
      y: group.flatMap((point) => [point.accuracy, point.accuracy, null]),
      mode: "lines+markers", line: { color: colour, width: 1, dash: "dot" },
      marker: {
        symbol, color: "white", size: group.flatMap(() => [6, 0, 0]), line: { color: colour, width: 1.2 },
      },
    });
  });
}

/** A dash at the share of answers that a bounded view leaves in sight. */
function coverages(points, at) {
  const bounded = finishedOf(points).filter((point) => point.coverage < FULL_VIEW);
  return quiet({
    x: bounded.map(at), y: bounded.map((point) => point.coverage), mode: "markers",
    marker: { symbol: "line-ew", size: 14, line: { width: 2, color: GREY } },
  });
}

/** Mean over seeds with its interval; hollow where outside the frontier. */
function markers(view, points, at) {
  return view.setting.series.flatMap((series) => {
    const own = finishedOf(points).filter((point) => point.series === series.name);
    if (!own.length) return [];
    const inside = own.map(takesPart);
    const spread = (end) => own.map((point) => (point.low === null ? 0 : Math.abs(end(point) - point.accuracy)));
    return [{
      type: points.length > MANY ? "scattergl" : "scatter",
      name: plotText(series.name), x: own.map(at), y: own.map((point) => point.accuracy), mode: "markers",
      customdata: own.map((point) => point.place), cliponaxis: false,
      text: own.map((point) => hover(view, point)), hoverinfo: "text",
      marker: {
        symbol: series.symbol, size: MARKER * series.size,
        color: inside.map((full) => (full ? series.colour : "white")),
        line: { width: inside.map((full) => (full ? 0.6 : 1.5)), color: inside.map((full) => (full ? "white" : series.colour)) },
      },
      error_y: {
        visible: view.intervals, type: "data", symmetric: false, thickness: 1.1, width: 2.5, color: series.colour,
        array: spread((point) => point.high), arrayminus: spread((point) => point.low),
      },
    }];
  });
}

/** A small arrowhead on the side where the grid of learning rates ends. */
function edges(points, at) {
  const flagged = finishedOf(points).filter((point) => point.lr_edge);
  return quiet({
    x: flagged.map(at), y: flagged.map((point) => point.accuracy), mode: "text",
    text: flagged.map((point) => (point.lr_edge === "high" ? "\u2002▸" : "◂\u2002")),
    textposition: flagged.map((point) => (point.lr_edge === "high" ? "middle right" : "middle left")),
    textfont: { size: 10, color: INK },
  });
}

/** Crosses below zero: strong where seeds diverged at the lr that is drawn, pale where at another. */
function crosses(view, points, at) {
  const own = points.filter((point) => point.diverged_in_grid);
  return {
    x: own.map(at), y: own.map(() => DIVERGED_AT), mode: "markers+text", type: "scatter",
    customdata: own.map((point) => point.place), hoverinfo: "text", cliponaxis: false,
    hovertext: own.map((point) => hover(view, point)),
    text: own.map((point) => (point.diverged ? ` ${point.diverged}/${point.seeds}` : "")),
    textposition: "middle right", textfont: { size: 10, color: GREY },
    marker: {
      symbol: "x-thin", size: 8,
      opacity: own.map((point) => (point.diverged ? 1 : 0.45)),
      line: {
        color: own.map((point) => seriesOf(view).get(point.series).colour),
        width: own.map((point) => (point.diverged ? 2.2 : 1.2)),
      },
    },
  };
}

/** Around the point whose details are shown, where it is drawn. */
function ring(view, points, chosen) {
  const own = points.filter((point) => point.place === chosen && point[view.axis.column] !== null);
  return own.map((point) => ({
    type: "path", path: RING, xsizemode: "pixel", ysizemode: "pixel", line: { color: INK, width: 1.6 },
    xanchor: point[view.axis.column], yanchor: point.diverged < point.seeds ? point.accuracy : DIVERGED_AT,
  }));
}

/** What no model can do: the region above the first bound, lines for fewer bits a scalar, and the heuristic. */
function bounds(view) {
  const { states, lines } = view.setting.bounds;
  if (!view.bound || !states || !view.slices.length) return [];
  const looks = [{ color: "#b9b0a6", width: 1.4 }, { color: "#b9b0a6", width: 1.1, dash: "dash" }, { color: "#b9b0a6", width: 1.1, dash: "dot" }];
  return view.axis.bounds.flatMap((label, place) => {
    const whole = boundOf(view, label), binding = whole.findIndex((at) => at >= FULL) + 1 || states.length;
    const x = states.slice(0, binding).map((state) => state * view.axis.per_scalar), y = whole.slice(0, binding);
    const heuristic = place === view.axis.bounds.length - 1;
    const line = quiet({ x, y, mode: "lines", line: heuristic ? { color: "#8fa8bd", width: 1.4, dash: "longdash" } : looks[place], hoverinfo: "text", text: y.map((at) => `${label}: ${share(at)}`) });
    if (place) return [line];
    const top = quiet({ x, y: x.map(() => 1), mode: "lines", line: { width: 0 } });
    return [top, { ...line, fill: "tonexty", fillcolor: "rgba(185,176,166,.35)" }];
  });
}

/** A bound at each of its states: the mean over the slices in view. */
function boundOf(view, label) {
  const { states, lines } = view.setting.bounds;
  const bySlice = view.slices.map((slice) => lines[label][view.split][slice]);
  return states.map((_, at) => mean(bySlice.map((line) => line[at])));
}

/** Up to where the bounds bind; the hard one mostly lies left of every trained model. */
function boundsInWords(view) {
  const { states } = view.setting.bounds;
  if (!view.bound || !states || !view.axis.bounds.length) return "";
  const ends = view.axis.bounds.map((label) => {
    const full = states[boundOf(view, label).findIndex((at) => at >= FULL)] ?? states.at(-1);
    return `${label}, up to ${quantity(Math.ceil(full) * view.axis.per_scalar, view.axis)}`;
  });
  return `Shaded and dashed, where in sight: ${ends.join("; ")} (the last is a heuristic).`;
}

/** A trace that explains a marker and is not one. */
const quiet = (trace) => ({ type: "scatter", hoverinfo: "skip", ...trace });

/** The full point in a few lines. */
function hover(view, point) {
  const lines = [
    `<b>${plotText(point.series)}</b>  ${plotText(knobsOf(point))}`,
    `accuracy ${share(point.accuracy)}${point.low === null ? "" : `  (${share(point.low)} to ${share(point.high)}, ${point.interval})`}`,
    `${plural(point.seeds, "seed")}, ${point.solved} solved${point.diverged ? `, ${point.diverged} diverged` : ""}`,
    `lr ${short(point.lr)}, ${point.lrs === 1 ? "the only one" : `best of ${point.lrs} on validation`}${point.lr_edge ? `, the ${point.lr_edge}est` : ""}`,
    `state: resident ${count(point.state_resident)}, touched ${count(point.state_touched)}, paper ${count(point.state_paper)}`,
    `${count(point.parameters)} parameters, ${point.n_layers} layers`,
  ];
  const axis = view.axis;
  if (DATA.per_cell.includes(axis.column)) lines.push(`${axis.words}: ${quantity(point[axis.column], axis)} ${axis.unit}`);
  if (point.coverage < FULL_VIEW) lines.push(`${share(point.coverage)} of the answers within its view`);
  if (!point.causal) lines.push("sees the future: outside the frontier");
  else if (!point.exact_decode) lines.push("not decodable exactly: outside the frontier");
  else if (point.on_frontier) lines.push("on the frontier");
  return lines.join("<br>");
}

function layout(view, drawn, range) {
  const below = drawn.some((point) => point.diverged_in_grid) ? -0.1 : -0.03;
  const xaxis = {
    type: "log", range: range.map(Math.log10), title: { text: plotText(label(view)).replace(" (", innerWidth < 700 ? "<br>(" : " ("), standoff: 6 }, zeroline: false, showgrid: false,
    linecolor: GREY, ticks: "outside", tickcolor: GREY, ...ticks(view.axis, inSight(view, range)),
  };
  const yaxis = {
    range: [below, 1.06], title: { text: `${view.split === "test" ? "Test" : "Validation"} accuracy` }, gridcolor: "#ececec",
    zeroline: true, zerolinecolor: GREY, zerolinewidth: 0.8, linecolor: GREY, nticks: 7, tickformat: ".3~f",
  };
  return {
    xaxis, yaxis, font: FONT, showlegend: false, hovermode: "closest", dragmode: "zoom", uirevision: view.zoom,
    margin: { l: 56, r: 16, t: 28, b: 46 }, paper_bgcolor: "white", plot_bgcolor: "white",
    hoverlabel: { bgcolor: "white", bordercolor: "#bbb", font: { ...FONT, size: 12 }, align: "left" },
    annotations: drawn.some((point) => point.diverged < point.seeds) ? [] : [nothing(view, drawn)],
  };
}

function nothing(view, drawn) {
  const text = drawn.length ? "Every cell in view diverged." : `Nothing in view has this axis: ${plotText(label(view))}.`;
  return { text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { size: 14, color: GREY } };
}

const label = ({ axis, setting }) => `${axis.words.replace("{tokens}", setting.points.state_seq_len[0])} (${axis.unit})`;

/** The part of the axis that is in view: where the reader has zoomed to, or all of it. */
function inSight(view, range) {
  const picture = byId("picture");
  const kept = picture.layout?.uirevision === view.zoom && picture.layout.xaxis.range;
  return kept ? kept.map((power) => 10 ** power) : range;
}

/** Powers of two where state is counted, as long as several are in view. */
function ticks(axis, [low, high]) {
  const octaves = Math.log2(high / low);
  if (axis.ticks === "measured" || octaves < 2) return { tickmode: "auto", tickvals: null, ticktext: null, tickformat: "~s", nticks: 9 };
  const stride = 1 + Math.floor(octaves / 10);
  const first = Math.ceil(Math.log2(low) / stride) * stride;
  const tickvals = [];
  for (let power = first; 2 ** power <= high; power += stride) tickvals.push(2 ** power);
  return { tickmode: "array", tickvals, ticktext: tickvals.map((x) => quantity(x, axis)) };
}
