// What is compared: points, and single cells.  Each has a colour of its own for as long as it is chosen.

const MOST_COMPARED = 24;
const HUES = ["#0072B2", "#D55E00", "#009E73", "#B2559A", "#8A6A00", "#3A9BD9", "#555555", "#7B3FA0"]; // in turn
const DASHES = ["solid", "dash", "dot"]; // one for each time that the hues are through
let selection = []; // {point: place, cell: its number, or null for the point, slot}; in the order of choosing
let shownCell = null; // of which cell the command and the config are shown
let leftOut = 0; // how many did not fit

const isSame = (item, point, cell) => item.point === point && item.cell === cell;
const isChosen = (point, cell = null) => selection.some((item) => isSame(item, point, cell));
const isShown = (item) => {
  const point = points.find((each) => each.place === item.point);
  return point && (item.cell === null || cellsOf(point).includes(item.cell));
};
const cellsOf = (point) => point.grid.flatMap((entry) => entry.cells);

/** Choose one thing: alone, or `more`, beside what is chosen; what is chosen already is then given back. */
function choose(point, { cell = null, more = false, jump = false } = {}) {
  if (more && isChosen(point, cell)) selection = selection.filter((item) => !isSame(item, point, cell));
  else if (more) add([[point, cell]]);
  else only([[point, cell]]);
  shownCell = cell ?? (isChosen(point) ? points.find((each) => each.place === point).chosen.cells[0] : null);
  chosenAnew(jump);
}

/** These alone.  wanted: [place of the point, cell or null]. */
function only(wanted) {
  selection = [];
  add(wanted);
}

function add(wanted) {
  const fresh = wanted.filter(([point, cell]) => !isChosen(point, cell));
  leftOut = Math.max(0, selection.length + fresh.length - MOST_COMPARED);
  for (const [point, cell] of fresh.slice(0, Math.max(0, MOST_COMPARED - selection.length))) {
    const taken = new Set(selection.map((item) => item.slot));
    const slot = Array.from({ length: MOST_COMPARED }, (_, i) => i).find((each) => !taken.has(each));
    selection.push({ point, cell, slot });
  }
}

const clear = () => (only([]), chosenAnew());

/** Beside what is chosen, all points of a series that are in view. */
function chooseSeries(name) {
  add(points.filter((point) => point.series === name).map((point) => [point.place, null]));
  chosenAnew(true);
}

/** Everything that depends on the selection, drawn again. */
async function chosenAnew(jump = false) {
  encircle(view, points);
  showTables();
  remember();
  drawEvaluation();
  showParallel();
  await showSelection();
  if (jump && selection.length) byId("detail").scrollIntoView({ block: "nearest" });
}

const hueOf = (item) => shade(HUES[item.slot % HUES.length]);
const dashOf = (item) => DASHES[Math.floor(item.slot / HUES.length) % DASHES.length];
const hueAt = (point, cell = null) => selection.filter((item) => isSame(item, point, cell)).map(hueOf)[0] ?? null;

/** What is chosen and in view, with all that the panel shows of it. */
function compared() {
  return selection.filter(isShown).map((item) => {
    const point = points.find((each) => each.place === item.point);
    const { cells } = view.setting;
    const cell = item.cell ?? point.chosen.cells[0];
    const about = item.cell === null ? "" : `, lr ${short(cells.lr[cell])}, seed ${cells.seed[cell]}`;
    return {
      item, point, cell, colour: hueOf(item), dash: dashOf(item), name: `${point.series} ${knobsOf(point)}${about}`,
      cells: item.cell === null ? point.chosen.cells : [item.cell],
    };
  });
}
