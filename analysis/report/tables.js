// Sortable tables.  A column: {title, value(row), text?(row), about?}, and true or not: number, first, wraps, words (which
// wrap on a narrow screen); a long table shows its first rows, in the order that it is sorted by, and a button for the
// rest.  Where rows can be picked, a click anywhere on one picks it; for the keyboard the `first` column has a button,
// and a box adds it to what is picked.

const FIRST_ROWS = 50;

class SortedTable {
  /** tint: row -> class of its line.  pick(row, more): it was picked; hue(row): its colour if it is, else null.
   * alone: one row can be picked at a time, so there are no boxes. */
  constructor(id, columns, { sort = null, falling = false, tint = () => "", pick = null, hue = () => null, alone = false } = {}) {
    Object.assign(this, { home: byId(id), columns, sort, falling, tint, pick, hue, alone, rows: [], whole: false });
  }

  show(rows) {
    this.rows = rows;
    this.draw();
  }

  by(column) {
    this.order(column, this.sort === column ? !this.falling : Boolean(column.number));
    this.home.querySelector("th[aria-sort] button").focus();
    remember();
  }

  order(column, falling) {
    Object.assign(this, { sort: column, falling });
    this.draw();
  }

  sorted() {
    if (!this.sort) return this.rows;
    const { value } = this.sort, sign = this.falling ? -1 : 1;
    return this.rows
      .map((row) => [value(row), row])
      .sort(([a], [b]) => (a === null) - (b === null) || sign * (a < b ? -1 : a > b ? 1 : 0))
      .map(([, row]) => row);
  }

  draw() {
    const most = this.whole ? Infinity : FIRST_ROWS;
    const together = element("th", { scope: "col", class: "box", title: "compare" }, "⇄");
    const head = element("tr", {}, ...(this.boxed() ? [together] : []), ...this.columns.map((column) => this.header(column)));
    this.drawn = new Map(this.sorted().slice(0, most).map((row) => [row, this.line(row)]));
    const body = this.drawn.values();
    this.colour();
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
    const top = this.home.firstChild?.scrollTop ?? 0, focus = this.focused();
    this.home.replaceChildren(element("div", { class: "table", tabindex: "-1" }, table));
    this.home.firstChild.scrollTop = top;
    if (focus) table.rows[focus.line]?.querySelector(focus.tag)?.focus({ preventScroll: true });
    if (this.rows.length > most) this.home.append(this.rest());
  }

  boxed() {
    return this.pick && !this.alone;
  }

  /** Where the keyboard is: in which line, on what. */
  focused() {
    const on = this.home.contains(document.activeElement) ? document.activeElement : null;
    const line = on?.closest("tbody tr");
    return line ? { line: line.rowIndex, tag: on.tagName } : null;
  }

  line(row) {
    const cells = this.columns.map((column) => this.cell(column, row));
    if (!this.pick) return element("tr", {}, ...cells);
    const box = element("input", { type: "checkbox", change: () => this.pick(row, true) });
    box.setAttribute("aria-label", "compare");
    const click = (event) => {
      if (!event.target.closest("input, button, .box") && !String(getSelection())) this.pick(row, event.ctrlKey || event.metaKey || event.shiftKey);
    };
    return element("tr", { class: "", click }, ...(this.boxed() ? [element("td", { class: "box" }, box)] : []), ...cells);
  }

  /** Lines take the class that their rows have by now, and the colour and tick of those that are picked. */
  colour() {
    for (const [row, line] of this.drawn) {
      const hue = this.hue(row), box = line.querySelector("input");
      line.className = `${this.tint(row)}${hue ? " chosen" : ""}${this.pick ? " pick" : ""}`;
      line.style.boxShadow = hue ? `inset 4px 0 0 ${hue}` : "";
      if (box) box.checked = Boolean(hue);
    }
  }

  header(column) {
    const sorted = this.sort === column ? { "aria-sort": this.falling ? "descending" : "ascending" } : {};
    const button = element("button", { type: "button", click: () => this.by(column) }, column.title);
    return element("th", { scope: "col", class: column.number ? "number" : "", title: column.about ?? "", ...sorted }, button);
  }

  cell(column, row) {
    const text = column.text ? column.text(row) : String(column.value(row) ?? "");
    const written = column.words ? breakable(text) : [text];
    const click = column.first && this.pick && element("button", { type: "button", click: () => this.pick(row, false) }, ...written);
    return element("td", { class: ["number", "wraps", "words"].filter((each) => column[each]).join(" ") }, ...(click ? [click] : written));
  }

  rest() {
    const text = `show all ${count(this.rows.length)} rows`;
    return element("button", { type: "button", click: () => ((this.whole = true), this.draw()) }, text);
  }
}

/** A text whose long words may be broken after "=". */
const breakable = (text) => text.replace(/\S{15,}/g, (word) => word.replaceAll("=", "=\u200b")).split("\u200b").flatMap((part) => [part, element("wbr")]);

/** The columns of the table of points for an axis; some of them beside accuracy. */
function pointColumns(axis, beside) {
  return [
    { title: "mixer", value: (point) => point.series, first: true, words: true },
    { title: "settings", value: knobsOf, words: true },
    { title: axis.short, number: true, value: (point) => point[axis.column], text: (point) => quantity(point[axis.column], axis) },
    { title: "accuracy", number: true, value: (point) => point.accuracy, text: (point) => share(point.accuracy) },
    ...beside,
    { title: "interval", value: (point) => point.low, text: (point) => (point.low === null ? "-" : `${share(point.low)} to ${share(point.high)}`) },
    { title: "frontier", value: (point) => (point.on_frontier ? 0 : 1), text: standing },
    { title: "seeds", number: true, value: (point) => point.seeds, text: (point) => String(point.seeds) },
    { title: "solved", number: true, value: (point) => point.solved },
    { title: "diverged", number: true, value: (point) => point.diverged_in_grid, text: divergedText },
    { title: "lr", number: true, value: (point) => point.lr, text: lrMarked },
    { title: "coverage", about: "the share of the answers that lie within its view", number: true, value: (point) => point.coverage, text: (point) => share(point.coverage) },
  ];
}

/** Over all learning rates: of the point's cells in view, those that diverged. */
const divergedText = (point) => (point.diverged_in_grid ? `${point.diverged_in_grid} of ${sum(point.grid.map((entry) => entry.seeds))}` : "");
const lrMarked = (point) => `${point.lr_edge === "low" ? "◂ " : ""}${short(point.lr)}${point.lr_edge === "high" ? " ▸" : ""}`;
const lrText = (point) => `${short(point.lr)}${{ low: " (lowest)", high: " (highest)", "": "" }[point.lr_edge]}`;

function standing(point) {
  if (!point.causal) return "not causal";
  if (!point.exact_decode) return "not decodable";
  return point.on_frontier ? "on it" : "";
}

/** The columns of the table of cells. */
function cellColumns(view) {
  const { cells, points } = view.setting;
  const of = (cell, name) => points[name][cells.point[cell]];
  const scored = (cell) => (cells.diverged[cell] ? null : score(view.setting, view.split, view.slices, cell));
  return [
    { title: "cell", value: (cell) => cells.run_id[cell], first: true },
    { title: "mixer", value: (cell) => of(cell, "series"), words: true },
    { title: "settings", value: (cell) => `d_model=${of(cell, "d_model")} ${of(cell, "knobs")}`.trim(), words: true },
    { title: "lr", number: true, value: (cell) => cells.lr[cell], text: (cell) => short(cells.lr[cell]) },
    { title: "seed", number: true, value: (cell) => cells.seed[cell] },
    { title: "accuracy", number: true, value: scored, text: (cell) => (cells.diverged[cell] ? "diverged" : share(scored(cell))) },
    { title: "steps", number: true, value: (cell) => cells.steps[cell], text: (cell) => count(cells.steps[cell]) },
    { title: "seconds", number: true, value: (cell) => cells.wall_seconds[cell], text: (cell) => short(cells.wall_seconds[cell]) },
    { title: "examples/s", number: true, value: (cell) => cells.examples_per_second[cell], text: (cell) => short(cells.examples_per_second[cell]) },
    { title: "peak memory", number: true, value: (cell) => cells.peak_memory_bytes[cell], text: (cell) => (cells.peak_memory_bytes[cell] === null ? "-" : inBytes(cells.peak_memory_bytes[cell])) },
    ...(DATA.made.names.length > 1 ? [{ title: "from", value: (cell) => DATA.made.names[cells.origin[cell]] }] : []),
  ];
}
