// What analysis/ computes, once more, for the cells that the filters leave: learning_rate.py chooses the lr on
// validation, seeds.py gives the interval, points.py the means, frontier.py what no other point beats.

const TIE = 1e-9; // of two mean accuracies, as in learning_rate.py
const MARGIN = 0.02; // above chance, within which a point counts as one at chance, as in chance.py
const SOLVED = 0.99; // accuracy from which a seed counts as having solved the task
const APART = 0.3; // seeds that differ by more have no mean that says anything, as zoo.results.record has it
const BOOTSTRAP = "bootstrap 95 %", RANGE = "min to max", NONE = "one seed";

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
const mean = (numbers) => sum(numbers) / numbers.length;

/** The entry of a cell in a table by slice, which is [cell][slice], or one number that all share. */
const bySlice = (table, cell, slice) => (table[0]?.length === undefined ? table[0] : table[cell][slice]);

/** Mean over slices (their places in the split); a diverged cell scores 0. */
function score(setting, split, slices, cell) {
  if (setting.cells.diverged[cell]) return 0;
  return mean(slices.map((slice) => bySlice(setting.cells.accuracy[split], cell, slice)));
}

/** One entry a learning rate, rising: {lr, valid, seeds, diverged, complete, cells}. */
function profile(setting, cells) {
  const every = setting.slices.valid.map((_, slice) => slice);
  const grid = [...Map.groupBy(cells, (cell) => setting.cells.lr[cell])].map(([lr, group]) => ({
    lr,
    cells: group,
    valid: mean(group.map((cell) => score(setting, "valid", every, cell))),
    seeds: group.length,
    diverged: group.filter((cell) => setting.cells.diverged[cell]).length,
  }));
  const fullest = Math.max(...grid.map((entry) => entry.seeds));
  for (const entry of grid) entry.complete = entry.seeds === fullest;
  return grid.sort((a, b) => a.lr - b.lr);
}

/** The place in a profile that validation chooses: of equal ones that nearest the middle of the grid. */
function chosenPlace(grid) {
  const best = Math.max(...grid.filter((entry) => entry.complete).map((entry) => entry.valid));
  const middle = (grid.length - 1) / 2;
  return grid
    .map((entry, place) => ({ entry, place }))
    .filter(({ entry }) => entry.complete && entry.valid >= best - TIE)
    .reduce((a, b) => (Math.abs(b.place - middle) < Math.abs(a.place - middle) ? b : a)).place;
}

/** [low, high, how] for a mean over seeds; the resamples are those that seeds.py draws. */
function interval(scores, resamples) {
  const sorted = [...scores].sort((a, b) => a - b);
  if (sorted.length === 1) return [null, null, NONE];
  if (sorted.length <= 3) return [sorted[0], sorted.at(-1), RANGE];
  const drawn = resamples[sorted.length].map(([times, counts]) => {
    return [sum(counts.map((count, place) => count * sorted[place])) / sorted.length, times];
  });
  drawn.sort((a, b) => a[0] - b[0]);
  return [quantile(drawn, 0.025), quantile(drawn, 0.975), BOOTSTRAP];
}

/** Linear between neighbours, as numpy has it.  drawn: [value, how often], by rising value. */
function quantile(drawn, at) {
  const place = (sum(drawn.map(([, times]) => times)) - 1) * at;
  const low = ranked(drawn, Math.floor(place)), high = ranked(drawn, Math.ceil(place));
  return low + (high - low) * (place - Math.floor(place));
}

function ranked(drawn, rank) {
  let seen = 0;
  for (const [value, times] of drawn) {
    seen += times;
    if (rank < seen) return value;
  }
  return drawn.at(-1)[0];
}

/** What the page shows of one point: its own columns, and what its cells in view scored. */
function summary(setting, resamples, point, cells, split, slices) {
  const own = Object.fromEntries(Object.entries(setting.points).map(([name, column]) => [name, column[point]]));
  const grid = profile(setting, cells), place = chosenPlace(grid), chosen = grid[place];
  const scores = chosen.cells.map((cell) => score(setting, split, slices, cell));
  const finished = scores.filter((_, i) => !setting.cells.diverged[chosen.cells[i]]);
  const [low, high, how] = interval(scores, resamples);
  return {
    ...own,
    place: point,
    accuracy: mean(scores),
    apart: Math.max(...scores) - Math.min(...scores) > APART ? scores : [],
    low,
    high,
    interval: how,
    seeds: scores.length,
    solved: scores.filter((each) => each >= SOLVED).length,
    diverged: chosen.diverged,
    accuracy_finished: finished.length ? mean(finished) : null,
    coverage: coverage(setting, split, slices, chosen.cells),
    lr: chosen.lr,
    valid_accuracy: chosen.valid,
    lrs: grid.length,
    lr_edge: grid.length < 3 ? "" : place === 0 ? "low" : place === grid.length - 1 ? "high" : "",
    diverged_in_grid: sum(grid.map((entry) => entry.diverged)),
    missing_seeds: !grid.every((entry) => entry.complete),
    ...measured(setting, chosen.cells),
    grid,
    chosen,
  };
}

function coverage(setting, split, slices, cells) {
  const table = setting.cells.coverage[split];
  return mean(cells.map((cell) => mean(slices.map((slice) => bySlice(table, cell, slice)))));
}

/** The median over the cells that finished of what was measured or counted for each; null where none was. */
function measured(setting, cells) {
  const finished = cells.filter((cell) => !setting.cells.diverged[cell]);
  return Object.fromEntries(DATA.per_cell.map((name) => {
    const known = finished.map((cell) => setting.cells[name][cell]).filter((value) => value !== null);
    return [name, median(known)];
  }));
}

function median(numbers) {
  if (!numbers.length) return null;
  const sorted = numbers.sort((a, b) => a - b), middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Causal, exactly decodable points of which a seed finished; no other belongs on the frontier. */
const takesPart = (point) => point.causal && point.exact_decode && point.diverged < point.seeds;

/** The mean over the slices in view, as `analysis.statistics.chance` has it; null where one does not say it. */
function chanceOf({ setting, split, slices }) {
  const each = slices.map((slice) => setting.chance[split][slice]);
  return each.length && each.every((value) => value !== null) ? mean(each) : null;
}

/** Sets on_frontier: no other point has at most its cost and at least its accuracy, one of them strictly. */
function markFrontier(points, axis, chance) {
  const cost = (point) => (axis.more ? -point[axis.column] : point[axis.column]);
  for (const point of points) point.on_frontier = false;
  const rivals = points.filter((point) => takesPart(point) && !(point.accuracy < chance + MARGIN) && point[axis.column] !== null);
  rivals.sort((a, b) => cost(a) - cost(b) || b.accuracy - a.accuracy);
  let best = null;
  for (const point of rivals) {
    const equal = best && point.accuracy === best.accuracy && cost(point) === cost(best);
    if (!best || point.accuracy > best.accuracy || equal) {
      point.on_frontier = true;
      best = point;
    }
  }
}

/** Every point that has a cell in view, in the order of the CSV of `python -m analysis.pareto`. */
function summarise(view) {
  const { setting, split, slices, lrs, seeds, series, origins, axis } = view;
  const { cells, points } = setting;
  const inView = cells.run_id.map((_, cell) => cell).filter((cell) => {
    const shown = series.has(points.series[cells.point[cell]]);
    return shown && passes(view, cells.point[cell]) && lrs.has(cells.lr[cell]) && seeds.has(cells.seed[cell]) && origins.has(cells.origin[cell]);
  });
  const grouped = Map.groupBy(inView, (cell) => cells.point[cell]);
  const found = [...grouped.keys()].sort((a, b) => a - b).map((point) => {
    return summary(setting, DATA.resamples, point, grouped.get(point), split, slices);
  }).filter(brushed());
  markFrontier(found, axis, chanceOf(view) ?? -1);
  return found;
}
