// The frontier: accuracy against what the axis says, drawn by plotly; its marks are in marks.js and limits.js.

const ROOM = 1.45; // beside the outermost points, as a factor
const TOUCH = matchMedia("(pointer: coarse)"); // a finger scrolls the page, and zooms with the buttons
// pixels around a chosen point: a circle as a path, for plotly refuses negative corners on a log axis
const RING = "M10,0C10,5.5 5.5,10 0,10C-5.5,10 -10,5.5 -10,0C-10,-5.5 -5.5,-10 0,-10C5.5,-10 10,-5.5 10,0Z";
// The buttons are named one by one, so that no version of plotly adds one that uploads.
const config = () => ({
  displaylogo: false, responsive: true, showSendToCloud: false, showLink: false, plotlyServerURL: "",
  displayModeBar: true, modeBarButtons: [["zoom2d", "pan2d", "select2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
});

/** Draw the points; the zoom stays where it was as long as `view.zoom` is the same. */
function draw(view, points) {
  const drawn = points.filter((point) => point[view.axis.column] !== null);
  const range = rangeOf(view, drawn);
  const at = (point) => Math.max(point[view.axis.column], 1e-12);
  const layers = [
    ...bounds(view),
    ...chanceLine(view, range),
    frontierLine(drawn, at, range, view.axis),
    ...(view.lines ? seriesLines(view, drawn, at) : []),
    ...dumbbells(view, drawn),
    coverages(drawn, at),
    ...seedSpans(view, drawn, at),
    ...markers(view, drawn, at),
    edges(drawn, at),
    ...labels(drawn, at),
    crosses(view, drawn, at),
  ];
  view.home = [...range.map(Math.log10), ...heights(drawn)];
  const standing = Plotly.react("picture", layers, { ...layout(view, drawn, range), shapes: rings(view, points) }, config());
  return standing.then(() => performance.mark("picture"));
}

/** Another selection: the rings alone are drawn anew. */
const encircle = (view, points) => Plotly.relayout("picture", { shapes: rings(view, points) });

const zoomTo = (ends) => Plotly.relayout("picture", { "xaxis.range": ends.slice(0, 2), "yaxis.range": ends.slice(2) });

function rangeOf(view, drawn) {
  const columns = [view.axis.column, ...(view.axis.key === "resident" ? ["state_touched"] : [])];
  const seen = drawn.flatMap((point) => columns.map((column) => point[column])).filter((x) => x > 0);
  const low = seen.reduce((a, b) => Math.min(a, b), Infinity), high = seen.reduce((a, b) => Math.max(a, b), 0);
  return seen.length ? [low / ROOM, high * ROOM] : [1, 1024];
}

/** Around the points that are chosen, where they are drawn. */
function rings(view, points) {
  return selection.filter(isShown).flatMap((item) => {
    const point = points.find((each) => each.place === item.point);
    if (point[view.axis.column] === null) return [];
    return [{
      type: "path", path: RING, xsizemode: "pixel", ysizemode: "pixel", line: { color: hueOf(item), width: 2 },
      xanchor: point[view.axis.column], yanchor: point.diverged < point.seeds ? topOf(point) : DIVERGED_AT,
    }];
  });
}

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
  if (point.apart.length) lines.push(`its seeds are apart: ${point.apart.map(share).join(", ")}`);
  if (point.coverage < FULL_VIEW) lines.push(`${share(point.coverage)} of the answers within its view`);
  if (!point.causal) lines.push("sees the future: outside the frontier");
  else if (!point.exact_decode) lines.push("not decodable exactly: outside the frontier");
  else if (point.on_frontier) lines.push("on the frontier");
  return lines.join("<br>");
}

const hoverLook = () => ({ bgcolor: LOOK.paper, bordercolor: LOOK.rule, font: font(12), align: "left" });
const narrow = () => innerWidth < 700;
const TICK = 54; // pixels that a tick's label takes
const ticksAcross = () => Math.max(2, Math.min(10, Math.floor(((byId("picture").clientWidth || 900) - 72) / TICK)));

function layout(view, drawn, range) {
  const xaxis = {
    type: "log", range: range.map(Math.log10), title: { text: narrow() ? plotText(label(view)).replace(/,? (?=\(|the most)/g, "<br>") : plotText(label(view)), standoff: 6 }, zeroline: false, showgrid: false,
    linecolor: LOOK.rule, ticks: "outside", tickcolor: LOOK.rule, ...ticks(view.axis, inSight(view, range)),
  };
  const yaxis = {
    range: heights(drawn), title: { text: `${view.split === "test" ? "Test" : "Validation"} accuracy` }, gridcolor: LOOK.grid,
    zeroline: true, zerolinecolor: LOOK.rule, zerolinewidth: 0.8, linecolor: LOOK.rule, nticks: 7, tickformat: ".3~f",
  };
  return {
    xaxis, yaxis, font: font(), showlegend: false, hovermode: "closest", dragmode: TOUCH.matches ? false : "zoom", uirevision: view.zoom,
    margin: { l: 56, r: 16, t: narrow() ? 46 : 28, b: narrow() ? 78 : 46 }, paper_bgcolor: LOOK.paper, plot_bgcolor: LOOK.paper,
    hoverlabel: hoverLook(),
    annotations: drawn.some((point) => point.diverged < point.seeds) ? limitLabels(view, range, drawn) : [nothing(view, drawn)],
  };
}

const heights = (drawn) => [drawn.some((point) => point.diverged_in_grid) ? -0.1 : -0.03, 1.06];

function nothing(view, drawn) {
  const text = drawn.length ? "Every cell in view diverged." : `Nothing in view has this axis: ${plotText(label(view))}.`;
  return { text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { ...font(14), color: LOOK.grey } };
}

const label = ({ axis, setting }) => `${axis.words.replace("{tokens}", setting.points.state_seq_len[0])} (${axis.unit})`;

/** The part of the axis that is in view: where the reader has zoomed to, or all of it. */
function inSight(view, range) {
  const picture = byId("picture");
  const kept = picture.layout?.uirevision === view.zoom && picture.layout.xaxis.range;
  return kept ? kept.map((power) => 10 ** power) : range;
}

/** Powers of two where state is counted, as long as several are in view. */
function ticks(axis, [low, high], most = ticksAcross()) {
  const octaves = Math.log2(high / low);
  if (axis.ticks === "measured" || octaves < 2) return { tickmode: "auto", tickvals: null, ticktext: null, tickformat: "~s", nticks: most - 1 };
  const stride = Math.max(1, Math.ceil(octaves / most));
  const first = Math.ceil(Math.log2(low) / stride) * stride;
  const tickvals = [];
  for (let power = first; 2 ** power <= high; power += stride) tickvals.push(2 ** power);
  return { tickmode: "array", tickvals, ticktext: tickvals.map((x) => quantity(x, axis)) };
}
