// Differences in the panel and the tables: each item minus the one that it is compared with, over the seeds that both have.

let against = null; // the item of the selection that others are compared with; null: the first

/** Which of the items the others are compared with. */
const referenceOf = (items) => items.find(({ item }) => item === against) ?? items[0];

const signed = (number) => `${number < 0 ? "\u2212" : "+"}${share(Math.abs(number))}`;

/** "+0.012 (+0.010 to +0.015)". */
function differenceText(found) {
  if (!found) return "-";
  return signed(found.difference) + (found.low === null ? "" : ` (${signed(found.low)} to ${signed(found.high)})`);
}

/** [item, found, p, corrected p] of every other item; p null where no seed is shared. */
function comparisons(items, slices = view.slices) {
  const reference = referenceOf(items), base = bySeed(reference.cells, slices);
  const others = items.filter((one) => one !== reference).map((one) => [one, compareSeeds(bySeed(one.cells, slices), base)]);
  const ps = others.map(([, found]) => (found ? exchanged(found.differences) : null));
  const corrected = holm(ps.filter((p) => p !== null));
  return others.map(([one, found], place) => [one, found, ps[place], ps[place] === null ? null : corrected.shift()]);
}

/** The card that answers whether what is chosen differs. */
function realCard(items) {
  const reference = referenceOf(items), rows = comparisons(items), several = rows.length > 1;
  const pick = (event) => ((against = items[Number(event.target.value)].item), chosenAnew());
  const select = element("select", { id: "against", change: pick, "aria-label": "compared with" },
    ...items.map((one, place) => element("option", { value: place, selected: one === reference }, one.name)));
  const titles = ["", "difference", "seeds", "p", ...(several ? [`p of ${rows.length} (Holm)`] : []), "least p"];
  const lines = rows.flatMap(([one, found, p, corrected]) => {
    const numbers = [differenceText(found), found?.pairs ?? 0, short(p), ...(several ? [short(corrected)] : []), found ? short(found.least) : "-"];
    return [
      element("tr", {}, element("th", { scope: "row" }, swatch(one), one.name), ...numbers.map((text) => element("td", { class: "number" }, String(text)))),
      element("tr", {}, element("td", { class: "verdict", colspan: titles.length }, element("p", {}, verdict(found, corrected, rows.length)))),
    ];
  });
  const table = element("table", {}, element("thead", {}, element("tr", {}, ...titles.map((text, place) => element("th", { scope: "col", class: place && text ? "number" : "" }, text)))), element("tbody", {}, ...lines));
  return element("div", { class: "card wide", id: "real" },
    element("h3", {}, "Is the difference real?"),
    element("div", { class: "row" }, element("label", {}, "Accuracy minus that of ", select)),
    element("div", { class: "table" }, table),
    element("p", { class: "hint" }, `Paired over the seeds that both have; p: of all ways to exchange the two within seeds, the share that differs at least as much (exact up to ${EXACT} seeds).`));
}

/** A column of the table of points: minus the point that is chosen; none where nothing is. */
function differenceColumns() {
  const items = compared();
  if (!items.length) return [];
  const reference = referenceOf(items), base = bySeed(reference.cells);
  const of = (point) => (point.place === reference.point.place ? null : compareSeeds(bySeed(point.chosen.cells), base));
  const text = (point) => {
    const found = of(point);
    return found ? `${signed(found.difference)}, p ${short(exchanged(found.differences))}` : "-";
  };
  return [{ title: "minus chosen", number: true, value: (point) => of(point)?.difference ?? null, text }];
}

/** Series against series where their state is equal, all pairs. */
function showSeries() {
  const section = byId("pairs-section");
  section.hidden = view.axis.more || new Set(points.map((point) => point.series)).size < 2;
  if (section.hidden || !section.open) return;
  const rows = atEqualState(view, points), corrected = holm(rows.map((row) => row.p));
  rows.forEach((row, place) => (row.corrected = corrected[place]));
  byId("pairs-note").textContent = rows.length
    ? `Each series read as the best it reaches with at most so much, at the middle of where two overlap (${view.axis.short}).`
    : "No two series in view overlap on this axis, or they share no seed.";
  tables.pairs = table("pairs", [
    { title: "mixer", value: (row) => row.a, words: true },
    { title: "minus", value: (row) => row.b, words: true },
    { title: `at ${view.axis.short}`, number: true, value: (row) => row.state, text: (row) => quantity(row.state, view.axis) },
    { title: "difference", number: true, words: true, value: (row) => row.difference, text: differenceText },
    { title: "seeds", number: true, value: (row) => row.pairs },
    { title: "p", number: true, value: (row) => row.p, text: (row) => short(row.p) },
    { title: "p of all (Holm)", number: true, value: (row) => row.corrected, text: (row) => short(row.corrected) },
    { title: "in words", value: (row) => verdict(row, row.corrected, rows.length), wraps: true },
  ], rows, {});
}

/** Points that lie in two folders, or were run twice, with other scores: the later minus the earlier. */
function showAgain() {
  const section = byId("again-section"), { points: of } = view.setting;
  section.hidden = of.again.every((earlier) => earlier === null);
  if (section.hidden) return;
  const rows = points.flatMap((point) => {
    const earlier = points.find((each) => each.place === of.again[point.place]);
    const found = earlier && compareSeeds(bySeed(point.chosen.cells), bySeed(earlier.chosen.cells));
    return earlier ? [{ point, earlier, found, p: found && exchanged(found.differences) }] : [];
  });
  byId("again-count").textContent = plural(rows.length, "point");
  tables.again = table("again", [
    { title: "mixer", value: ({ point }) => point.series, first: true, words: true },
    { title: "minus", value: ({ earlier }) => earlier.series, words: true },
    { title: "settings", value: ({ point }) => knobsOf(point), words: true },
    { title: "difference", number: true, words: true, value: ({ found }) => found?.difference ?? null, text: ({ found }) => differenceText(found) },
    { title: "p", number: true, value: ({ p }) => p, text: ({ p }) => short(p) },
    { title: "accuracy", number: true, value: ({ point }) => point.accuracy, text: ({ point }) => share(point.accuracy) },
    { title: "of the earlier", number: true, value: ({ earlier }) => earlier.accuracy, text: ({ earlier }) => share(earlier.accuracy) },
    { title: "in words", value: ({ found, p }) => verdict(found, p), wraps: true },
  ], rows, { pick: ({ point, earlier }) => (only([[earlier.place, null], [point.place, null]]), chosenAnew(true)), alone: true });
}
