// The small pictures of the panel: loss and accuracy over steps, accuracy over learning rates.

const PLOTS = ["losses", "curves", "profile"];
const small = () => ({ ...config(), displayModeBar: false });

/** One line a cell.  Of a single point the cells at its other learning rates too, in grey. */
function drawCurves(items, all) {
  const lines = items.flatMap((one) => drawnCells(one, items).map((cell) => [cell, one]));
  lines.sort(([a, one], [b, other]) => one.cells.includes(a) - other.cells.includes(b)); // grey ones below
  const most = Math.max(...lines.map(([cell]) => all[view.setting.cells.run_id[cell]].loss[0].at(-1) ?? 0));
  const traces = (what, text) => lines.map(([cell, one]) => curve(cell, one, all[view.setting.cells.run_id[cell]][what], text));
  const steps = { rangemode: "tozero", nticks: 6, ...(most ? { range: [0, 1.02 * most] } : {}) };
  const losses = smallLayout("training step", "loss (nats)");
  Object.assign(losses.xaxis, steps);
  losses.margin.l = 58;
  losses.yaxis = { ...losses.yaxis, type: "log", range: undefined, autorange: true, exponentformat: "power", dtick: undefined, nticks: 5 };
  const accuracies = smallLayout("training step", "validation accuracy");
  Object.assign(accuracies.xaxis, steps);
  return [
    Plotly.newPlot("losses", traces("loss", short), missing(losses, lines, all, "loss"), small()),
    Plotly.newPlot("curves", traces("accuracy", share), missing(accuracies, lines, all, "accuracy"), small()),
  ];
}

const drawnCells = (one, items) => (items.length === 1 && one.item.cell === null ? cellsOf(one.point) : one.cells);

function curve(cell, one, [x, y], text) {
  const { cells } = view.setting, chosen = one.cells.includes(cell);
  const ended = cells.diverged[cell] ? `, diverged at step ${count(cells.diverged_step[cell])}` : "";
  const name = `${plotText(one.point.series)}  ${plotText(knobsOf(one.point))}<br>lr ${short(cells.lr[cell])}, seed ${cells.seed[cell]}${ended}`;
  return {
    x, y, mode: "lines+markers", hoverinfo: "text", text: y.map((value, i) => `${name}<br>step ${count(x[i])}: ${text(value)}`),
    line: { color: chosen ? one.colour : LOOK.faint, width: chosen ? 1.6 : 1, dash: one.dash },
    marker: { size: x.length > 12 ? 1 : 4, symbol: "circle" },
  };
}

/** In words, where no cell has such a curve. */
function missing(layout, lines, all, what) {
  if (lines.some(([cell]) => all[view.setting.cells.run_id[cell]][what][0].length)) return layout;
  const text = "No record of it.";
  return { ...layout, annotations: [{ text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { color: LOOK.grey } }] };
}

/** Mean validation accuracy against learning rate, with each seed. */
function drawProfile(items) {
  const { cells } = view.setting;
  const every = view.setting.slices.valid.map((_, slice) => slice);
  const height = (cell) => (cells.diverged[cell] ? DIVERGED_AT : score(view.setting, "valid", every, cell));
  const once = [...new Map(items.map((one) => [one.point.place, one])).values()];
  const traces = once.flatMap(({ point, colour, dash }) => {
    const seeds = cellsOf(point), lrs = point.grid.map((entry) => entry.lr), who = `${plotText(point.series)}  ${plotText(knobsOf(point))}<br>`;
    return [{
      x: seeds.map((cell) => cells.lr[cell]), y: seeds.map(height), mode: "markers", hoverinfo: "text",
      text: seeds.map((cell) => `${who}lr ${short(cells.lr[cell])}, seed ${cells.seed[cell]}: ${cells.diverged[cell] ? "diverged" : share(height(cell))}`),
      marker: { color: colour, opacity: 0.55, size: 6, symbol: seeds.map((cell) => (cells.diverged[cell] ? "x" : "circle")) },
    }, {
      x: lrs, y: point.grid.map((entry) => entry.valid), mode: "lines+markers", line: { color: colour, width: 1.6, dash },
      hoverinfo: "text", text: point.grid.map((entry) => `${who}lr ${short(entry.lr)}: mean ${share(entry.valid)} of ${plural(entry.seeds, "seed")}${entry.complete ? "" : ", too few to be chosen"}`),
      marker: { size: lrs.map((lr) => (lr === point.lr ? 11 : 6)), color: lrs.map((lr) => (lr === point.lr ? colour : LOOK.tint)), line: { color: colour, width: 1.4 } },
    }];
  });
  const lrs = [...new Set(once.flatMap(({ point }) => point.grid.map((entry) => entry.lr)))].sort((a, b) => a - b);
  const drawn = smallLayout("learning rate", "validation accuracy");
  drawn.xaxis = { ...drawn.xaxis, type: "log", tickmode: "array", tickvals: lrs, ticktext: lrs.map(short) };
  if (lrs.length === 1) drawn.xaxis.range = [Math.log10(lrs[0]) - 0.5, Math.log10(lrs[0]) + 0.5];
  return Plotly.newPlot("profile", traces, drawn, small());
}

const smallLayout = (x, y) => ({
  xaxis: { title: { text: x, standoff: 4 }, zeroline: false, showgrid: false, linecolor: LOOK.rule, ticks: "outside", tickcolor: LOOK.rule },
  yaxis: { title: { text: y }, range: [-0.1, 1.06], gridcolor: LOOK.grid, zeroline: false, nticks: 6 },
  font: font(11), showlegend: false, hovermode: "closest", margin: { l: 46, r: 8, t: 8, b: 38 }, hoverlabel: hoverLook(),
  paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: TOUCH.matches ? false : "zoom",
});
