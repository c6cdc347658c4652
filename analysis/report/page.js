// The state of the page and what follows from it: one view, drawn anew after every change.

const DATA = JSON.parse(byId("data").textContent);
const view = {}; // what is shown: see `read`
let controls, points = [];
const tables = {};

/** The view as the controls say it. */
function read() {
  const setting = DATA.settings[Number(byId("setting").value)];
  const split = byId("split").value, axis = DATA.axes.find((each) => each.key === byId("axis").value);
  const names = ticked(controls.slices);
  const slices = setting.slices[split].map((_, place) => place).filter((place) => names.has(setting.slices[split][place]));
  Object.assign(view, {
    setting, split, axis, slices,
    series: ticked(controls.series.made), lrs: ticked(controls.lrs), seeds: ticked(controls.seeds), origins: ticked(controls.origins),
    intervals: byId("show-intervals").checked, lines: byId("show-lines").checked, bound: byId("show-bound").checked,
    typed: byId("find").value.trim().toLowerCase().split(/\s+/).filter(Boolean), keys: view.keysOf === setting ? view.keys : new Map(), keysOf: setting,
    zoom: `${byId("setting").value} ${axis.key}`,
  });
}

let asked = false;
/** Draw once for all the changes of this moment. */
function changed() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => ((asked = false), render()));
}

function render() {
  read();
  points = view.slices.length ? summarise(view) : [];
  draw(view, points);
  legend(view);
  encodedLegend();
  showFacets(view);
  showParallel();
  showTables();
  showCaption();
  byId("points-count").textContent = `${count(points.length)} of ${count(view.setting.points.point.length)}`;
  remember();
  drawEvaluation();
  return showSelection();
}

function showTables() {
  const { cells } = view.setting;
  const inView = points.flatMap((point) => point.grid.flatMap((entry) => entry.cells));
  const lost = inView.filter((cell) => cells.diverged[cell]);
  const columns = cellColumns(view);
  tables.points = table("points", pointColumns(view.axis, differenceColumns()), points, {
    tint: (point) => (takesPart(point) ? "" : "aside"), hue: (point) => hueAt(point.place),
    pick: (point, more) => choose(point.place, { more, jump: !more }),
  });
  const cell = { hue: (cell) => hueAt(cells.point[cell], cell), pick: (cell, more) => choose(cells.point[cell], { cell, more, jump: !more }) };
  if (byId("cells-section").open) tables.cells = table("cells", columns, inView, cell);
  byId("cells-count").textContent = `${count(inView.length)} of ${count(cells.run_id.length)}`;
  byId("diverged-section").hidden = !lost.length;
  byId("diverged-count").textContent = `${count(lost.length)} of ${count(inView.length)} cells in view`;
  const at = { title: "at step", number: true, value: (cell) => cells.diverged_step[cell], text: (cell) => count(cells.diverged_step[cell]) };
  tables.diverged = table("diverged", [...columns.slice(0, 5), at], lost, cell);
  showSeries();
  showAgain();
}

/** A table with new rows, sorted as the one before it was. */
function table(id, columns, rows, about) {
  const before = tables[id];
  const sort = (before?.sort && columns[before.columns.indexOf(before.sort)]) ?? null;
  const made = new SortedTable(id, columns, { sort, falling: before?.falling, ...about });
  made.whole = before?.whole ?? false;
  made.show(rows);
  return made;
}

const showCaption = () => (byId("caption").textContent = caption());

/** How the numbers in view were made. */
function caption() {
  if (!points.length) return "Nothing is in view: tick a mixer, a slice, a learning rate and a seed.";
  const span = (name) => {
    const values = points.map((point) => point[name]);
    const low = Math.min(...values), high = Math.max(...values);
    return low === high ? `${low}` : `${low} to ${high}`;
  };
  const hows = [...new Set(points.map((point) => point.interval))].filter((how) => how !== NONE);
  const all = view.setting.slices[view.split], slices = view.slices.map((place) => all[place]);
  const listed = slices.length === all.length ? "" : ` (${slices.slice(0, 8).join("; ")}${slices.length > 8 ? "; ..." : ""})`;
  const names = slices.length === 1 ? `slice ${slices[0]}` : `unweighted mean of ${listed ? "" : "all "}${slices.length} slices${listed}`;
  const few = points.filter((point) => point.seeds < Math.max(...points.map((each) => each.seeds))).length;
  return [
    `${view.setting.name}: ${names}.`,
    hows.length ? `Mean of ${span("seeds")} seeds with ${hows.join(" or ")} over seeds.` : "One seed each: no interval.",
    points.every((point) => point.lrs === 1) ? "One learning rate each, not tuned." : `Learning rate: the best of ${span("lrs")} by mean validation accuracy over seeds and all validation slices.`,
    points.some((point) => point.diverged_in_grid) ? "A diverged seed counts as 0." : "",
    few ? `${plural(few, "point")} with fewer seeds than others.` : "",
    boundsInWords(view),
    notDrawn(),
  ].filter(Boolean).join(" ");
}

function notDrawn() {
  const without = points.filter((point) => point[view.axis.column] === null).length;
  return without ? `${plural(without, "point")} without this axis, not drawn.` : "";
}

/** New lists for another setting. */
function setUp() {
  const setting = DATA.settings[Number(byId("setting").value)], { cells } = setting;
  const rising = (values) => [...new Set(values)].sort((a, b) => a - b);
  const names = [...new Set([...setting.slices.test, ...setting.slices.valid])];
  controls = {
    series: seriesBoxes(setting, changed),
    slices: boxes("slices", names, sliceText(names), changed),
    lrs: boxes("lrs", rising(cells.lr), short, changed),
    seeds: boxes("seeds", rising(cells.seed), String, changed),
    origins: boxes("origins", rising(cells.origin), (place) => DATA.made.names[place], changed),
  };
  byId("origins-filter").hidden = controls.origins.size < 2;
  Object.assign(view, { setting, keys: new Map(), keysOf: setting });
  plainView();
  if (byId("by-setting").open) setUpKeys().then(changed);
  setUpEvaluations();
  only([]);
  byId("find").value = "";
}

/** "64, 8" where all slices have the keys that the heading then says; otherwise their whole names. */
function sliceText(names) {
  const keysOf = (name) => name.split(",").map((pair) => pair.split("=")[0]).join(", ");
  const same = names.every((name) => keysOf(name) === keysOf(names[0]));
  byId("slice-keys").textContent = same ? keysOf(names[0]) : "";
  return (name) => (same ? name.split(",").map((pair) => pair.split("=")[1]).join(", ") : name);
}

function everything() {
  for (const each of [controls.series.made, controls.slices, controls.lrs, controls.seeds, controls.origins]) tick(each, () => true);
  controls.series.follow();
  plainView();
  byId("find").value = "";
  find(controls.series, "");
  changed();
}

const hint = byId("detail").firstElementChild;
start();
