// The marks of the picture, those of analysis/drawing/draw.py: what each point is, in plotly's traces.

const DIVERGED_AT = -0.045; // below zero, so that it is no accuracy
const FULL_VIEW = 0.9995; // a coverage above this bounds nothing
const MANY = 1500; // points, from which WebGL draws them
const MARKER = 9; // pixels
const SMALLER = Math.SQRT1_2; // a seed where each is drawn, of a mean: half its area, as in draw.py

/** A trace that explains a marker and is not one. */
const quiet = (trace) => ({ type: "scatter", hoverinfo: "skip", ...trace });

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
    line: { color: LOOK.frontier, width: 6, shape: axis.more ? "vh" : "hv" },
  });
}

/** Points of a series by rising x: one line a d_model where it turns a knob, none where it turns several; seeds agree. */
function seriesLines(view, points, at) {
  return [...Map.groupBy(settled(finishedOf(points)), (point) => point.series)].flatMap(([name, group]) => {
    const widths = Map.groupBy(group, (point) => point.d_model), turns = widths.size < group.length;
    const lines = turns ? [...widths.values()].filter((line) => turned(line) <= 1) : [group];
    const sorted = lines.map((line) => [...line].sort((a, b) => at(a) - at(b) || a.accuracy - b.accuracy));
    return sorted.length ? [quiet({
      x: sorted.flatMap((line) => [...line.map(at), null]),
      y: sorted.flatMap((line) => [...line.map((point) => point.accuracy), null]),
      mode: "lines", line: { color: lineColour(view, name), width: 1.2 }, opacity: 0.55,
    })] : [];
  });
}

/** How many knobs take two values in these points. */
function turned(points) {
  const pairs = [...new Set(points.flatMap((point) => point.knobs.split(" ").filter(Boolean)))];
  return [...Map.groupBy(pairs, (pair) => pair.split("=")[0]).values()].filter((values) => values.length > 1).length;
}

/** From what is kept to what one step reads, where the two differ. */
function dumbbells(view, points) {
  if (view.axis.key !== "resident") return [];
  const apart = settled(finishedOf(points)).filter((point) => point.state_touched !== point.state_resident);
  return [...Map.groupBy(apart, (point) => point.series)].map(([name, group]) => {
    const { symbol } = seriesOf(view).get(name), colour = lineColour(view, name);
    return quiet({
      x: group.flatMap((point) => [point.state_touched, point.state_resident, null]),
      y: group.flatMap((point) => [point.accuracy, point.accuracy, null]),
      mode: "lines+markers", line: { color: colour, width: 1, dash: "dot" },
      marker: {
        symbol, color: LOOK.paper, size: group.flatMap(() => [6, 0, 0]), line: { color: colour, width: 1.2 },
      },
    });
  });
}

/** A dash at the share of answers that a bounded view leaves in sight. */
function coverages(points, at) {
  const bounded = finishedOf(points).filter((point) => point.coverage < FULL_VIEW);
  return quiet({
    x: bounded.map(at), y: bounded.map((point) => point.coverage), mode: "markers",
    marker: { symbol: "line-ew", size: 14, line: { width: 2, color: LOOK.grey } },
  });
}

/** Where a point is marked: at its mean, or where its seeds are apart at each of them, smaller. */
const spotsOfPoint = (point) => (point.apart.length ? point.apart : [point.accuracy]).map((y) => ({ point, y, seed: point.apart.length > 0 }));
const topOf = (point) => Math.max(...point.apart, point.apart.length ? -1 : point.accuracy);
const settled = (points) => points.filter((point) => !point.apart.length);

/** Mean over seeds with its interval; hollow where outside the frontier.  One trace a name of the legend, in its order. */
function markers(view, points, at) {
  const order = new Map(view.setting.series.map((series, place) => [series.name, place]));
  const sorted = [...finishedOf(points)].sort((a, b) => order.get(a.series) - order.get(b.series));
  return [...Map.groupBy(sorted, (point) => lookOf(view, point).name)].map(([name, group]) => {
    const { colour, size } = lookOf(view, group[0]); // its points share a colour
    const own = group.flatMap(spotsOfPoint), inside = own.map(({ point }) => takesPart(point));
    const spread = (end) => own.map(({ point, seed }) => (point.low === null || seed ? 0 : Math.abs(end(point) - point.accuracy)));
    return {
      type: points.length > MANY ? "scattergl" : "scatter",
      name: plotText(name), x: own.map(({ point }) => at(point)), y: own.map(({ y }) => y), mode: "markers",
      customdata: own.map(({ point }) => point.place), cliponaxis: false,
      text: own.map(({ point }) => hover(view, point)), hoverinfo: "text",
      marker: {
        symbol: own.map(({ point }) => lookOf(view, point).symbol), size: own.map(({ seed }) => MARKER * size * (seed ? SMALLER : 1)),
        color: inside.map((full) => (full ? colour : LOOK.paper)),
        line: { width: inside.map((full) => (full ? 0.6 : 1.5)), color: inside.map((full) => (full ? LOOK.paper : colour)) },
      },
      error_y: {
        visible: view.intervals, type: "data", symmetric: false, thickness: 1.1, width: 2.5, color: colour,
        array: spread((point) => point.high), arrayminus: spread((point) => point.low),
      },
    };
  });
}

/** A thin line through seeds that are apart. */
function seedSpans(view, points, at) {
  return [...Map.groupBy(finishedOf(points).filter((point) => point.apart.length), (point) => lookOf(view, point).colour)].map(([color, own]) => quiet({
    x: own.flatMap((point) => [at(point), at(point), null]), y: own.flatMap((point) => [Math.min(...point.apart), Math.max(...point.apart), null]),
    mode: "lines", line: { color, width: 0.8 }, opacity: 0.7,
  }));
}

/** A small arrowhead on the side where the grid of learning rates ends. */
function edges(points, at) {
  const flagged = finishedOf(points).filter((point) => point.lr_edge);
  return quiet({
    x: flagged.map(at), y: flagged.map(topOf), mode: "text",
    text: flagged.map((point) => (point.lr_edge === "high" ? "\u2002▸" : "◂\u2002")),
    textposition: flagged.map((point) => (point.lr_edge === "high" ? "middle right" : "middle left")),
    textfont: { size: 10, color: LOOK.ink },
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
    textposition: "middle right", textfont: { size: 10, color: LOOK.grey },
    marker: {
      symbol: "x-thin", size: 8,
      opacity: own.map((point) => (point.diverged ? 1 : 0.45)),
      line: {
        color: own.map((point) => lookOf(view, point).colour),
        width: own.map((point) => (point.diverged ? 2.2 : 1.2)),
      },
    },
  };
}
