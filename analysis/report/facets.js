// The picture once more for each value of a setting, small: each with a frontier of its own.

const MOST_FACETS = 12;

function showFacets(view) {
  const home = byId("facets");
  for (const old of home.querySelectorAll(".js-plotly-plot")) Plotly.purge(old);
  const key = encode.facet, drawn = points.filter((point) => point[view.axis.column] !== null);
  const all = key ? levelsOf(key).map((level) => [level, drawn.filter((point) => valueOf(key, point) === level)]).filter(([, own]) => own.length) : [];
  const shown = all.slice(0, MOST_FACETS), range = rangeOf(view, drawn);
  home.hidden = !shown.length;
  home.replaceChildren(...shown.map(([level, own]) => element("div", {}, element("h3", {}, `${key} ${level} `, element("small", {}, plural(own.length, "point"))), element("div", {}))));
  if (all.length > shown.length) home.append(element("p", { class: "hint" }, `${all.length - shown.length} more values are not drawn: filter by ${key}.`));
  for (const [place, [, own]] of shown.entries()) facet(view, home.children[place].lastChild, own.map((point) => ({ ...point })), range);
}

async function facet(view, home, own, range) {
  const at = (point) => Math.max(point[view.axis.column], 1e-12);
  markFrontier(own, view.axis, chanceOf(view) ?? -1);
  const layers = [
    ...bounds(view), ...chanceLine(view, range), frontierLine(own, at, range, view.axis), ...(view.lines ? seriesLines(view, own, at) : []),
    ...seedSpans(view, own, at), ...markers(view, own, at), ...labels(own, at), crosses(view, own, at),
  ];
  const frame = smallLayout(view.axis.short, "accuracy");
  Object.assign(frame.xaxis, { type: "log", range: range.map(Math.log10), ...ticks(view.axis, range, 4) });
  frame.yaxis.range = heights(own);
  await Plotly.newPlot(home, layers, frame, small());
  home.on("plotly_click", ({ points: [hit], event }) => hit.customdata !== undefined && choose(hit.customdata, { more: wantsMore(event) }));
}
