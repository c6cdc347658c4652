// What the page shows, in its address: after the #, whatever differs from how it opens.  A link shows the same.

const BOXES = ["show-intervals", "show-lines", "show-bound"];
const LISTS = ["series", "slices", "lrs", "seeds", "origins"];

/** The address of what is shown now. */
function remember() {
  const said = new URLSearchParams(), setting = Number(byId("setting").value);
  if (setting) said.set("setting", DATA.settings[setting].name);
  if (byId("split").value !== "test") said.set("split", byId("split").value);
  if (byId("axis").selectedIndex) said.set("axis", byId("axis").value);
  for (const id of BOXES) if (!byId(id).checked) said.append("without", id.replace("show-", ""));
  if (byId("find").value.trim()) said.set("find", byId("find").value.trim());
  for (const what of ENCODED) if (encode[what]) said.set(what, encode[what]);
  for (const [key, made] of where) said.append("where", JSON.stringify([key, ...ticked(made)]));
  for (const [name, held] of brushes) said.append("brush", JSON.stringify([name, ...held]));
  for (const list of LISTS) sayList(said, list, [...lists()[list]].map(([value, box]) => [String(value), box.checked]));
  const { cells, points: of } = view.setting;
  for (const { point, cell } of selection) said.append(cell === null ? "point" : "cell", cell === null ? of.point[point] : cells.run_id[cell]);
  if (selection.length && shownCell !== null) said.set("record", cells.run_id[shownCell]);
  const { sort, falling, columns } = tables.points ?? {};
  if (byId("evaluations-section").open) said.set("evaluation", [DATA.evaluations[byId("evaluation").value]?.name, ...ROLES.map((role) => roles[role])].join("|"));
  if (sort) said.set("sort", `${falling ? "-" : ""}${columns.indexOf(sort)}`);
  const zoom = zoomed();
  if (zoom) said.set("zoom", zoom.map((end) => Number(end.toPrecision(6))).join(","));
  if (byId("theme").value) said.set("theme", byId("theme").value);
  const address = `#${said}`;
  if (address !== (location.hash || "#")) history.replaceState(null, "", address);
}

const lists = () => ({ ...controls, series: controls.series.made });

/** Whichever is shorter: what is ticked, or what is not. */
function sayList(said, list, boxes) {
  const on = boxes.filter(([, checked]) => checked), off = boxes.filter(([, checked]) => !checked);
  if (!off.length) return;
  const [key, named] = on.length <= off.length ? [list, on] : [`not-${list}`, off];
  for (const [value] of named.length ? named : [[""]]) said.append(key, value);
}

/** Where the reader has zoomed to, or null. */
function zoomed() {
  const { layout } = byId("picture"), { home } = view;
  const ends = [...layout.xaxis.range, ...layout.yaxis.range];
  return home && ends.some((end, place) => Math.abs(end - home[place]) > 1e-6) ? ends : null;
}

/** Make the controls say what the address says; names that are not here are passed over. */
function recall() {
  const said = new URLSearchParams(location.hash.slice(1));
  const pick = (id, value, first) => (byId(id).value = [...byId(id).options].some((each) => each.value === value) ? value : first);
  pick("theme", said.get("theme") ?? "", "");
  dress();
  const place = DATA.settings.findIndex((setting) => setting.name === said.get("setting"));
  byId("setting").value = Math.max(0, place);
  setUp();
  pick("split", said.get("split"), "test");
  pick("axis", said.get("axis"), DATA.axes[0].key);
  for (const id of BOXES) byId(id).checked = !said.getAll("without").includes(id.replace("show-", ""));
  for (const [list, made] of Object.entries(lists())) {
    const on = new Set(said.getAll(list)), off = new Set(said.getAll(`not-${list}`));
    if (said.has(list)) tick(made, (value) => on.has(String(value)));
    else if (off.size) tick(made, (value) => !off.has(String(value)));
  }
  controls.series.follow();
  byId("find").value = said.get("find") ?? "";
  find(controls.series, byId("find").value);
  recallEvaluation((said.get("evaluation") ?? "").split("|"));
  return said;
}

/** Colours, shapes, panels, labels and filters by a setting; keys that are not here are passed over. */
async function recallKeys(said) {
  for (const what of ENCODED) encode[what] = said.get(what) ?? "";
  byId("by-setting").open = true;
  await setUpKeys();
  for (const text of said.getAll("where")) {
    const [key, ...on] = readList(text);
    addFilter(String(key));
    if (where.has(key)) tick(where.get(key), (level) => on.includes(level));
  }
  for (const text of said.getAll("brush")) {
    const [name, ...held] = readList(text);
    if (held.length) brushes.set(name, held);
  }
  await setUpKeys();
}

const asksForKeys = (said) => [...ENCODED, "where", "brush"].some((name) => said.has(name));

function readList(text) {
  try {
    return [].concat(JSON.parse(text));
  } catch {
    return [];
  }
}

/** Open the evaluation that the address names, with its roles. */
function recallEvaluation([name, ...named]) {
  const option = [...byId("evaluation").options].find((each) => DATA.evaluations[each.value].name === name);
  byId("evaluations-section").open = Boolean(option);
  if (!option) return;
  byId("evaluation").value = option.value;
  roles = named.length === ROLES.length ? Object.fromEntries(ROLES.map((role, place) => [role, named[place]])) : {};
}

/** What the address says of what was drawn since: the selection, the order of the table, the zoom. */
function recallDrawn(said) {
  shownCell = null;
  if (!["cell", "point", "sort", "zoom"].some((key) => said.has(key))) return showing; // all stands as it should
  const { cells, points: of } = view.setting;
  const runs = said.getAll("cell").map((name) => cells.run_id.indexOf(name)).filter((cell) => cell >= 0);
  const places = said.getAll("point").map((name) => of.point.indexOf(name)).filter((place) => place >= 0);
  only([...places.map((place) => [place, null]), ...runs.map((cell) => [cells.point[cell], cell])]);
  shownCell = said.has("record") ? cells.run_id.indexOf(said.get("record")) : null;
  showTables();
  const column = tables.points.columns[Math.abs(Number(said.get("sort")))];
  if (said.has("sort") && column) tables.points.order(column, said.get("sort").startsWith("-"));
  const ends = (said.get("zoom") ?? "").split(",").map(Number);
  if (ends.length === 4 && ends.every(Number.isFinite)) zoomTo(ends);
  return chosenAnew();
}
