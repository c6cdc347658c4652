// What can be taken away: the picture as SVG or PNG, tables and curves as CSV.

/** The picture as it is shown, with a legend; a name for each line that has one. */
async function savePicture(format) {
  const { data, layout } = byId("picture");
  const legend = { showlegend: true, legend: { font: font(11), bgcolor: "rgba(0,0,0,0)", itemsizing: "constant", traceorder: "normal" } };
  const traces = data.map((trace) => ({ ...trace, showlegend: Boolean(trace.name) }));
  const figure = { data: traces, layout: { ...layout, ...legend, shapes: [] }, config: config() };
  const url = await Plotly.toImage(figure, { format, width: 900, height: 520, scale: format === "png" ? 2 : 1 });
  download(url, `${fileStem()}.${format}`);
}

function saveText(text, name) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  download(url, name);
  URL.revokeObjectURL(url);
}

function download(url, name) {
  const link = element("a", { href: url, download: name });
  link.click();
}

const fileStem = () => `accuracy_against_${view.axis.key}`;
const savePoints = () => saveText(csv(points), "points.csv");

/** The cells in view: the columns of the page's table, as whole numbers and words. */
function saveCells() {
  const { cells, points: of } = view.setting;
  const inView = points.flatMap(cellsOf);
  const header = ["run_id", "mixer", "series", "d_model", "knobs", "lr", "seed", "accuracy", "diverged", "steps", "from", ...DATA.per_cell];
  const rows = inView.map((cell) => {
    const at = cells.point[cell];
    const scored = score(view.setting, view.split, view.slices, cell);
    return [cells.run_id[cell], of.mixer[at], of.series[at], of.d_model[at], of.knobs[at], cells.lr[cell], cells.seed[cell], scored,
      cells.diverged[cell], cells.steps[cell], DATA.made.names[cells.origin[cell]], ...DATA.per_cell.map((name) => cells[name][cell])];
  });
  saveText(asCsv([header, ...rows]), "cells.csv");
}

/** The curves of the cells that are compared, a row a step and number. */
async function saveCurves() {
  const all = await details(), { cells } = view.setting;
  const rows = compared().flatMap(({ point, cells: own }) => own.flatMap((cell) => {
    return ["loss", "accuracy"].flatMap((what) => {
      const [steps, values] = all[cells.run_id[cell]][what];
      return steps.map((step, i) => [cells.run_id[cell], point.series, knobsOf(point), cells.lr[cell], cells.seed[cell], step, what === "loss" ? "train" : "valid", what, values[i]]);
    });
  }));
  saveText(asCsv([["run_id", "series", "settings", "lr", "seed", "step", "split", "metric", "value"], ...rows]), "curves.csv");
}

const asCsv = (rows) => [...rows.map((row) => row.map((value) => written(value)).join(",")), ""].join("\n");

/** The points in view as CSV: columns that `python -m analysis.pareto` writes, with its digits. */
function csv(points) {
  const lines = points.map((point) => DATA.csv.map((name) => written(point[name], DATA.real.includes(name))).join(","));
  return [DATA.csv.join(","), ...lines, ""].join("\n");
}

const COMPUTED = /^\s*[=+\-@]/, NUMBER = /^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-)$/;

/** An entry of a CSV, as `analysis.records.readable.as_csv` has it: what a spreadsheet would compute becomes a text. */
function written(value, real = false) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value === "number") return real ? sixDigits(value) : String(value);
  const text = COMPUTED.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
