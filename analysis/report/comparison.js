// The panel of what is chosen: its curves together, its numbers, its slices, its configs side by side.

let showing = Promise.resolve(), latest = 0;
/** Show what is chosen by now: one after the other, and of many at once the last alone. */
function showSelection() {
  const mine = ++latest;
  showing = showing.then(() => (mine === latest ? fillPanel() : null));
  return showing;
}

async function fillPanel() {
  const home = byId("detail");
  if (!compared().length) return leave(home);
  const all = await details(), items = compared();
  if (!items.length) return leave(home); // filtered away while this was on its way
  const own = items.flatMap(({ point }) => cellsOf(point));
  if (!own.includes(shownCell)) shownCell = items[0].cell;
  for (const id of PLOTS) if (byId(id)) Plotly.purge(id);
  const configs = items.map(({ cell }) => flattened(all[view.setting.cells.run_id[cell]].config));
  home.replaceChildren(
    heading(items),
    element("div", { class: "plots" },
      plotHome("losses", "Training loss"), plotHome("curves", "Validation accuracy"), plotHome("profile", "Learning rates")),
    element("div", { class: "cards" },
      ...(items.length > 1 ? [realCard(items)] : []), numbers(items), slicesTable(items), ...(items.length > 1 ? [differences(items, configs)] : [])),
    cellChoice(items),
    record(all[view.setting.cells.run_id[shownCell]]));
  await Promise.all([...drawCurves(items, all), drawProfile(items)]);
}

function leave(home) {
  for (const id of PLOTS) if (byId(id)) Plotly.purge(id);
  home.replaceChildren(hint);
}

const plotHome = (id, title) => element("div", {}, element("h3", {}, title), element("div", { id }));

function heading(items) {
  const title = items.length === 1 ? items[0].name : `Comparing ${items.length}`;
  const chips = items.map((one) => {
    const away = element("button", { type: "button", click: () => choose(one.item.point, { cell: one.item.cell, more: true }) }, "\u00d7");
    away.setAttribute("aria-label", `without ${one.name}`);
    return element("span", { class: "chip" }, swatch(one), one.name, away);
  });
  const more = leftOut ? [element("small", {}, `${plural(leftOut, "more")} did not fit: ${MOST_COMPARED} are the most.`)] : [];
  return element("div", {},
    element("div", { class: "row" },
      element("h2", { style: "margin:0" }, title),
      element("button", { type: "button", id: "close", click: clear }, items.length === 1 ? "close" : "clear"),
      element("button", { type: "button", id: "save-curves", click: saveCurves }, "Curves as CSV"), ...more),
    ...(items.length > 1 ? [element("div", { class: "chips" }, ...chips)] : []));
}

/** A piece of the line that an item is drawn with. */
function swatch({ colour, dash }) {
  const mark = element("i", { class: "swatch" });
  mark.style.borderTopColor = colour;
  mark.style.borderTopStyle = { solid: "solid", dash: "dashed", dot: "dotted" }[dash];
  return mark;
}

/** A table whose columns are the items.  rows: [name, texts, places to be bold].  heads: of the columns, where there are more. */
function sideBySide(id, title, items, rows, heads = items.map((one) => named(one))) {
  const head = items.length > 1 ? [element("thead", {}, element("tr", {}, element("th", {}), ...heads))] : [];
  const body = rows.map(([name, texts, bold = []]) => {
    const cells = texts.map((text, place) => element("td", { class: bold.includes(place) ? "number best" : "number" }, text));
    return element("tr", {}, element("th", { scope: "row" }, name), ...cells);
  });
  const table = element("table", {}, ...head, element("tbody", {}, ...body));
  return element("div", { class: "card", id }, element("h3", {}, title), element("div", { class: "table" }, table));
}

const named = (one) => element("th", { scope: "col", class: "number", title: one.name }, swatch(one), element("span", {}, one.name));

function numbers(items) {
  const of = (text) => items.map((one) => String(text(one.point, one)));
  const single = (one) => one.item.cell !== null;
  const scored = (one) => (view.setting.cells.diverged[one.cell] ? "diverged" : share(score(view.setting, view.split, view.slices, one.cell)));
  const rows = [
    ["accuracy", of((point, one) => (single(one) ? scored(one) : share(point.accuracy)))],
    [`interval (${[...new Set(items.map(({ point }) => point.interval))].join("; ")})`, of((point, one) => (single(one) || point.low === null ? "-" : `${share(point.low)} to ${share(point.high)}`))],
    ["seeds", of((point, one) => (single(one) ? "this one" : point.seeds))],
    [`seeds at ${SOLVED} or more`, of((point, one) => (single(one) ? "-" : point.solved))],
    ["seeds diverged", of((point, one) => (single(one) ? "-" : point.diverged))],
    ["learning rate", of((point, one) => (single(one) ? short(view.setting.cells.lr[one.cell]) : `${lrText(point)} of ${point.lrs}`))],
    ["resident state", of((point) => count(point.state_resident))],
    ["touched state", of((point) => count(point.state_touched))],
    ["state as published", of((point) => count(point.state_paper))],
    ["parameters", of((point) => count(point.parameters))],
    ["layers", of((point) => point.n_layers)],
    ...DATA.axes.filter((axis) => DATA.per_cell.includes(axis.column)).map((axis) => [axis.short, of((point) => `${quantity(point[axis.column], axis)} ${axis.short_unit}`.trim())]),
    ["coverage", of((point) => share(point.coverage))],
  ];
  return sideBySide("numbers", "Numbers", items, rows);
}

/** Mean accuracy on each slice, with the least and the most of the seeds, and the difference; the best of a row is bold. */
function slicesTable(items) {
  const { setting, split } = view, reference = referenceOf(items);
  const after = (one) => (one === reference ? [] : [one]);
  const heads = items.flatMap((one) => [named(one), ...after(one).map(() => element("th", { scope: "col", class: "number" }, "difference"))]);
  const rows = view.slices.map((slice) => {
    const scores = items.map(({ cells }) => cells.map((cell) => score(setting, split, [slice], cell)));
    const means = scores.map(mean), best = Math.max(...means);
    const base = bySeed(reference.cells, [slice]), bold = [];
    const texts = items.flatMap((one, place) => {
      const minus = after(one).map(() => differenceText(compareSeeds(bySeed(one.cells, [slice]), base)));
      return [{ text: share(means[place]) + spread(scores[place]), best: means[place] >= best - TIE }, ...minus.map((text) => ({ text }))];
    });
    texts.forEach((each, place) => each.best && bold.push(place));
    return [setting.slices[split][slice].replaceAll(",", ", "), texts.map((each) => each.text), bold.length < items.length ? bold : []];
  });
  return sideBySide("by-slice", `${split === "test" ? "Test" : "Validation"} accuracy by slice`, items, rows, heads);
}

function spread(scores) {
  const low = share(Math.min(...scores)), high = share(Math.max(...scores));
  return low === high ? "" : ` (${low} to ${high})`;
}

/** The settings in which the configs differ. */
function differences(items, configs) {
  const keys = [...new Set(configs.flatMap((config) => [...config.keys()]))];
  const rows = keys
    .map((key) => [key, configs.map((config) => config.get(key) ?? "\u2013")])
    .filter(([, values]) => new Set(values).size > 1);
  const first = items.some(({ item, cells }) => item.cell === null && cells.length > 1) ? " (of a point: those of its first seed)" : "";
  return sideBySide("differences", rows.length ? `Settings that differ${first}` : "Their configs are equal", items, rows);
}
