// What cells were asked after training: each a table, drawn as lines for the points that are chosen.  Which column
// is x, y, a line or a panel of its own is guessed from the table, and can be chosen.

const PICTURES = { // of the evaluations of zoo; "@varied" is the column that the column `varied` names
  distance: { x: "distance", y: "accuracy", panel: "slice" },
  groups: { x: "value", y: "accuracy", panel: "group", line: "slice" },
  load_distance: { x: "distance", y: "accuracy", panel: "num_kv_pairs" },
  extrapolation: { x: "@varied", y: "accuracy", panel: "varied" },
  forgetting_curve: { x: "length", y: "accuracy", line: "kind" },
  speed: { x: "seq_len", y: "tokens_per_second", panel: "what", line: "batch" },
  state_bits: { x: "bits_per_scalar", y: "accuracy", panel: "slice", line: "scale" },
  ar_hits: { x: "cutoff", y: "loss", panel: "part" },
  effective_state: { x: "cut", y: "rank", panel: "layer", line: "slice" },
  perplexity: { x: "slice", y: "perplexity" },
  answers: { x: "distance", y: "right", panel: "slice" },
  scores: { x: "slice", y: "accuracy" },
  greedy: { x: "slice", y: "matched" },
};
const SCORES = ["accuracy", "matched", "exact", "tokens_per_second", "perplexity", "loss"]; // of others, the first that there is
const COUNTS = ["answers", "right", "rows", "tokens", "repeat", "error", "chance", "guess"]; // never the x of others
const ROLES = ["x", "y", "line", "panel"];
const MOST_LEVELS = 24; // of a column that may be told apart by lines or panels
let roles = {}; // x, y, line, panel: names of columns, "" for none

const columnOf = (table, name) => (name === "@varied" ? table.varied.map((varied, row) => table[varied]?.[row] ?? null) : table[name]);
const levels = (tables, name) => [...new Set(tables.flatMap((table) => columnOf(table, name) ?? []))].filter((each) => each !== null && each !== "nan");
const isNumber = (values) => values.length > 0 && values.every((value) => typeof value === "number");

/** Guess the roles of the columns. */
function guessed(name, tables) {
  const names = [...new Set(tables.flatMap(Object.keys))], varies = (each) => levels(tables, each).length > 1;
  const numbers = names.filter((each) => isNumber(levels(tables, each)));
  const known = PICTURES[name] ?? {};
  const y = known.y ?? SCORES.find((each) => names.includes(each)) ?? numbers.at(-1) ?? names.at(-1);
  const wide = numbers.filter((each) => each !== y && !COUNTS.includes(each));
  const x = known.x ?? wide.sort((a, b) => levels(tables, b).length - levels(tables, a).length)[0] ?? names[0];
  const words = names.filter((each) => !numbers.includes(each) && each !== "split" && each !== x && varies(each));
  const panel = known.x ? known.panel : words.find((each) => levels(tables, each).length <= MOST_LEVELS);
  return { x, y, line: known.line && varies(known.line) ? known.line : "", panel: panel && varies(panel) ? panel : "" };
}

/** The evaluations of cells in this setting, for the choice; the section is hidden where there is none. */
function setUpEvaluations() {
  const here = new Set(view.setting.cells.run_id), chosen = byId("evaluation").value;
  const options = DATA.evaluations.flatMap(({ name, asked, run_ids }, place) => {
    const own = run_ids.filter((run_id) => here.has(run_id)).length;
    return own ? [element("option", { value: place }, `${name}${asked ? ` (${asked})` : ""}, ${plural(own, "cell")}`)] : [];
  });
  byId("evaluations-section").hidden = !options.length;
  const names = [...new Set(options.map((option) => DATA.evaluations[option.value].name))];
  byId("evaluations-count").textContent = names.join(", ");
  byId("evaluation").replaceChildren(...options);
  if (options.some((option) => option.value === chosen)) byId("evaluation").value = chosen;
  else roles = {};
}

/** What is drawn: that which is chosen, else the best point of each mixer among those that were asked. */
function evaluated(cells) {
  const has = (one) => one.cells.some((cell) => view.setting.cells.run_id[cell] in cells);
  const chosen = compared();
  if (chosen.length) return chosen.filter(has);
  const asked = points.map((point) => ({ point, cells: point.chosen.cells })).filter(has);
  return [...Map.groupBy(asked, ({ point }) => point.series).values()].map((own, place) => {
    const { point, cells } = own.reduce((a, b) => (b.point.accuracy > a.point.accuracy ? b : a));
    return { point, cells, name: `${point.series} ${knobsOf(point)}`, colour: shade(HUES[place % HUES.length]), dash: DASHES[Math.floor(place / HUES.length) % DASHES.length] };
  });
}

let evaluationTurn = 0;
/** Draw the evaluation that is chosen, where its section is open. */
async function drawEvaluation() {
  const section = byId("evaluations-section"), turn = ++evaluationTurn;
  showAnswers();
  if (section.hidden || !section.open) return;
  const all = await unpacked("evaluations");
  if (turn !== evaluationTurn) return;
  const { name, cells } = all[Number(byId("evaluation").value)];
  const { run_id } = view.setting.cells;
  const tables = run_id.flatMap((each) => cells[each] ?? []);
  if (!roles.x) roles = guessed(name, tables);
  chooseRoles(tables);
  const items = evaluated(cells);
  byId("evaluation-names").replaceChildren(...items.map((one) => element("span", { class: "chip plain" }, swatch(one), one.name)));
  byId("evaluation-note").textContent = evaluationNote(items);
  drawPanels(byId("evaluation-panels"), items.map((one) => ({ ...one, tables: one.cells.flatMap((cell) => cells[run_id[cell]] ?? []) })));
  remember();
}

function evaluationNote(items) {
  if (!items.length) return "Nothing that is chosen was asked this: choose other points, or clear the choice.";
  const of = compared().length ? "Of what is chosen." : "The best point of each mixer; choose points to see these.";
  return `${of} At the learning rate that is drawn above: the mean over its seeds (and over whatever has no line or panel of its own), with the interval over seeds.`;
}

/** The four choices, with the columns that they can be. */
function chooseRoles(tables) {
  const names = [...new Set(tables.flatMap(Object.keys)), ...(tables.some((table) => table.varied) ? ["@varied"] : [])];
  const few = names.filter((each) => each[0] !== "@" && levels(tables, each).length > 1 && levels(tables, each).length <= MOST_LEVELS);
  const numbers = names.filter((each) => isNumber(levels(tables, each)));
  const options = { x: names, y: numbers, line: ["", ...few], panel: ["", ...few] };
  for (const role of ROLES) {
    const home = byId(`evaluation-${role}`);
    home.replaceChildren(...options[role].map((each) => element("option", { value: each }, each.replace("@varied", "what is varied") || "-")));
    home.value = roles[role];
  }
}

function listenToEvaluations() {
  byId("evaluations-section").addEventListener("toggle", drawEvaluation);
  byId("evaluation").addEventListener("change", () => ((roles = {}), drawEvaluation()));
  for (const role of ROLES) byId(`evaluation-${role}`).addEventListener("change", (event) => ((roles[role] = event.target.value), drawEvaluation()));
}
