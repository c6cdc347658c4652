// Is a difference real?  What analysis/statistics/paired.py and equal.py compute, once more, for what the filters leave:
// the same seeds give the same data in the same order to both, so scores come in pairs.

const EXACT = 14; // pairs up to which every exchange of signs is tried
const ROUNDING = 1e-12; // of the sum of sizes: two exchanges that differ by less are one
const LEVEL = 0.05;

/** seed -> mean accuracy over some slices of the cells of an item. */
function bySeed(cells, slices = view.slices) {
  return new Map(cells.map((cell) => [view.setting.cells.seed[cell], score(view.setting, view.split, slices, cell)]));
}

/** {difference, low, high, interval, pairs, least} of a - b over the seeds that both have; null where they share none. */
function compareSeeds(a, b) {
  const differences = [...a].filter(([seed]) => b.has(seed)).map(([seed, value]) => value - b.get(seed));
  if (!differences.length) return null;
  const [low, high, how] = interval(differences, DATA.resamples);
  return { differences, difference: mean(differences), low, high, interval: how, pairs: differences.length, least: leastP(differences.length) };
}

const leastP = (pairs) => (pairs <= EXACT ? Math.min(1, 2 ** (1 - pairs)) : 2 ** -EXACT);

/** Two-sided: of all ways to exchange the two within pairs, the share whose mean differs at least as much. */
function exchanged(differences) {
  const observed = Math.abs(sum(differences)) - ROUNDING * sum(differences.map(Math.abs));
  const draws = differences.length <= EXACT ? signsOf(differences.length) : randomSigns(differences.length);
  let as_large = 0, all = 0;
  for (const positive of draws) {
    const total = sum(differences.map((each, place) => (positive(place) ? each : -each)));
    as_large += Math.abs(total) >= observed;
    all += 1;
  }
  return as_large / all;
}

function* signsOf(count) {
  for (let bits = 0; bits < 2 ** count; bits += 1) yield (place) => (bits >> place) & 1;
}

/** 2^EXACT exchanges, the same ones always; that which was observed is one of them. */
function* randomSigns(count) {
  let state = 1;
  yield () => true;
  for (let draw = 1; draw < 2 ** EXACT; draw += 1) {
    const drawn = Array.from({ length: count }, () => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 31));
    yield (place) => drawn[place];
  }
}

/** p values of several claims, corrected for how many there are (Holm 1979). */
function holm(ps) {
  const order = ps.map((_, place) => place).sort((a, b) => ps[a] - ps[b]);
  const corrected = [...ps];
  let highest = 0;
  order.forEach((place, rank) => {
    highest = Math.max(highest, Math.min(1, (ps.length - rank) * ps[place]));
    corrected[place] = highest;
  });
  return corrected;
}

/** The verdict in plain words.  p: corrected for so many comparisons. */
function verdict(found, p, comparisons = 1) {
  if (!found) return "They share no seed: nothing can be paired.";
  const seeds = plural(found.pairs, "seed"), enough = Math.ceil(1 + Math.log2(comparisons / LEVEL));
  if (found.least > LEVEL) return `${seeds} cannot show this at ${LEVEL}: the smallest possible p is ${short(found.least)}. ${enough} could.`;
  const chances = `were they equal, so much would be seen in ${short(100 * p)} % of cases${comparisons > 1 ? `, counting all ${comparisons} comparisons` : ""}.`;
  if (p <= LEVEL) return `Shown at ${LEVEL} by ${seeds}: ${chances}`;
  return `Not shown at ${LEVEL} by ${seeds}: ${chances}`;
}

/** Every two series whose spans on the axis overlap, compared at the geometric middle of the overlap. */
function atEqualState(view, points) {
  const { column } = view.axis;
  const allowed = points.filter((point) => takesPart(point) && point[column] > 0);
  const series = [...Map.groupBy(allowed, (point) => point.series)].map(([name, own]) => {
    const at = own.map((point) => point[column]);
    return { name, own, low: Math.min(...at), high: Math.max(...at) };
  }).sort((one, other) => (one.name < other.name ? -1 : 1));
  return series.flatMap((a, place) => series.slice(place + 1).flatMap((b) => {
    const low = Math.max(a.low, b.low), high = Math.min(a.high, b.high);
    if (low > high) return [];
    const state = Math.sqrt(low * high);
    const found = compareSeeds(seriesAt(a.own, state, column), seriesAt(b.own, state, column));
    return found ? [{ a: a.name, b: b.name, state, ...found, p: exchanged(found.differences) }] : [];
  }));
}

/** seed -> accuracy of a series at a state: the points that lead by their means, between two a line over log2; seeds of all points. */
function seriesAt(own, state, column) {
  const scores = new Map(own.map((point) => [point, bySeed(point.chosen.cells)]));
  const xs = [...new Set(own.map((point) => point[column]))].sort((a, b) => a - b);
  const after = xs.findIndex((x) => x > state), place = after < 0 ? xs.length - 1 : after, before = Math.max(place - 1, 0);
  const width = Math.log2(xs[place] / xs[before]);
  const part = width ? Math.log2(state / xs[before]) / width : 0;
  const [low, high] = [before, place].map((at) => scores.get(leader(own.filter((point) => point[column] <= xs[at]))));
  const shared = [...scores.get(own[0]).keys()].filter((seed) => own.every((point) => scores.get(point).has(seed)));
  return new Map(shared.map((seed) => [seed, low.get(seed) * (1 - part) + high.get(seed) * part]));
}

const leader = (points) => points.reduce((best, point) => (point.accuracy > best.accuracy ? point : best));
