// What a click shows: a point's training curves, its learning rates, its config, and the command for a cell.

const SMALL = { ...CONFIG, displayModeBar: false };
let unpacked = null; // run_id -> details, once somebody asked

/** The details of every cell; unpacked at the first call. */
function details() {
  unpacked ??= (async () => {
    const bytes = Uint8Array.from(atob(byId("details").textContent.trim()), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  })();
  return unpacked;
}

/** Fill the panel for a point, with the config and command of one of its cells. */
async function showDetails(view, point, cell) {
  const all = await details();
  const { cells } = view.setting;
  const title = element("div", { class: "row" },
    element("h2", { style: "margin:0" }, `${point.series}  ${knobsOf(point)}`),
    element("button", { type: "button", id: "close", click: () => view.choose(null) }, "close"));
  const plots = element("div", { class: "plots" },
    element("div", {}, element("h3", {}, "Training curves"), element("div", { id: "curves" })),
    element("div", {}, element("h3", {}, "Learning rates"), element("div", { id: "profile" })));
  for (const id of ["curves", "profile"]) if (byId(id)) Plotly.purge(id);
  byId("detail").replaceChildren(title, facts(view, point), plots, cellChoice(view, point, cell), record(all[cells.run_id[cell]]));
  drawCurves(view, point, all);
  drawProfile(view, point);
}

function facts(view, point) {
  const entries = [
    ["accuracy", `${share(point.accuracy)}${point.low === null ? "" : ` (${share(point.low)} to ${share(point.high)}, ${point.interval})`}`],
    ["seeds", `${point.seeds}, ${point.solved} at ${SOLVED} or more, ${point.diverged} diverged`],
    ["learning rate", `${lrText(point)} of ${point.lrs}`],
    ["resident", count(point.state_resident)],
    ["touched", count(point.state_touched)],
    ["paper", count(point.state_paper)],
    ["parameters", count(point.parameters)],
    ["layers", point.n_layers],
    ...DATA.axes.filter((axis) => DATA.per_cell.includes(axis.column)).map((axis) => [axis.short, `${quantity(point[axis.column], axis)} ${axis.short_unit}`]),
    ...(point.coverage < FULL_VIEW ? [["answers in view", share(point.coverage)]] : []),
  ];
  const pairs = entries.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, String(value))));
  return element("dl", { class: "facts" }, ...pairs);
}

/** One line a cell: the chosen learning rate in colour, others in grey. */
function drawCurves(view, point, all) {
  const { cells } = view.setting, colour = seriesOf(view).get(point.series).colour;
  const own = point.grid.flatMap((entry) => entry.cells).map((cell) => [cell, cells.lr[cell] === point.lr]);
  const traces = own.sort((a, b) => a[1] - b[1]).map(([cell, chosen]) => {
    const { steps, accuracy } = all[cells.run_id[cell]];
    const ended = cells.diverged[cell] ? `, diverged at step ${count(cells.diverged_step[cell])}` : "";
    const name = `lr ${short(cells.lr[cell])}, seed ${cells.seed[cell]}${ended}`;
    return {
      x: steps, y: accuracy, mode: "lines+markers", hoverinfo: "text", text: accuracy.map((y, i) => `${name}<br>step ${count(steps[i])}: ${share(y)}`),
      line: { color: chosen ? colour : "#bbbbbb", width: chosen ? 1.6 : 1 }, marker: { size: steps.length > 30 ? 1 : 4, symbol: "circle" },
    };
  });
  Plotly.newPlot("curves", traces, smallLayout("training step", "validation accuracy"), SMALL);
}

/** Mean validation accuracy against learning rate, with each seed. */
function drawProfile(view, point) {
  const { cells } = view.setting, colour = seriesOf(view).get(point.series).colour;
  const every = view.setting.slices.valid.map((_, slice) => slice);
  const seeds = point.grid.flatMap((entry) => entry.cells);
  const lrs = point.grid.map((entry) => entry.lr);
  const traces = [
    {
      x: seeds.map((cell) => cells.lr[cell]), y: seeds.map((cell) => (cells.diverged[cell] ? DIVERGED_AT : score(view.setting, "valid", every, cell))),
      mode: "markers", hoverinfo: "text",
      text: seeds.map((cell) => `lr ${short(cells.lr[cell])}, seed ${cells.seed[cell]}: ${cells.diverged[cell] ? "diverged" : share(score(view.setting, "valid", every, cell))}`),
      marker: { color: colour, opacity: 0.55, size: 6, symbol: seeds.map((cell) => (cells.diverged[cell] ? "x" : "circle")) },
    },
    {
      x: lrs, y: point.grid.map((entry) => entry.valid), mode: "lines+markers", line: { color: colour, width: 1.6 },
      hoverinfo: "text", text: point.grid.map((entry) => `lr ${short(entry.lr)}: mean ${share(entry.valid)} of ${plural(entry.seeds, "seed")}${entry.complete ? "" : ", too few to be chosen"}`),
      marker: { size: lrs.map((lr) => (lr === point.lr ? 11 : 6)), color: lrs.map((lr) => (lr === point.lr ? colour : "white")), line: { color: colour, width: 1.4 } },
    },
  ];
  const drawn = smallLayout("learning rate", "validation accuracy");
  drawn.xaxis = { ...drawn.xaxis, type: "log", tickmode: "array", tickvals: lrs, ticktext: lrs.map(short) };
  if (lrs.length === 1) drawn.xaxis.range = [Math.log10(lrs[0]) - 0.5, Math.log10(lrs[0]) + 0.5];
  Plotly.newPlot("profile", traces, drawn, SMALL);
}

const smallLayout = (x, y) => ({
  xaxis: { title: { text: x, standoff: 4 }, zeroline: false, showgrid: false, linecolor: GREY, ticks: "outside", tickcolor: GREY },
  yaxis: { title: { text: y }, range: [-0.1, 1.06], gridcolor: "#e2e2e2", zeroline: false, nticks: 6 },
  font: { ...FONT, size: 11 }, showlegend: false, hovermode: "closest", margin: { l: 46, r: 8, t: 8, b: 38 },
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
});

/** Which of the point's cells the command and the config below are of. */
function cellChoice(view, point, cell) {
  const { cells } = view.setting;
  const own = point.grid.flatMap((entry) => entry.cells);
  const options = own.map((each) => {
    const end = cells.diverged[each] ? "diverged" : share(score(view.setting, view.split, view.slices, each));
    return element("option", { value: each, selected: each === cell }, `lr ${short(cells.lr[each])}, seed ${cells.seed[each]}: ${end}`);
  });
  const select = element("select", { id: "cell", change: (event) => view.choose(point.place, Number(event.target.value)) }, ...options);
  return element("div", { class: "row" }, element("label", {}, "Cell ", select), element("small", {}, cells.run_id[cell]));
}

function record({ command, config, revision, clean }) {
  const code = element("pre", { id: "command" }, command || "Its record does not say with which words it was run.");
  const copy = element("button", { type: "button", click: () => copied(copy, command) }, "copy");
  const made = revision ? `made at git revision ${revision.slice(0, 12)}${clean ? "" : ", with changes that were not committed"}` : "";
  return element("div", {},
    element("div", { class: "row" }, element("h3", {}, "The command that makes it again"), copy, element("small", {}, made)),
    code,
    element("details", {}, element("summary", {}, "Its config"), element("pre", { id: "config" }, config || "Its config.yaml could not be read.")));
}

async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "copied";
}
