// Small multiples of an evaluation: a panel a level of one column, in it a line an item and level of another.

const MOST_PANELS = 12;
const FAR = 8; // times, from which an axis is logarithmic

/** items: {name, colour, dash, tables}; which columns are what says `roles`. */
function drawPanels(home, items) {
  for (const old of home.querySelectorAll(".js-plotly-plot")) Plotly.purge(old);
  const tables = items.flatMap((one) => one.tables);
  const titles = (roles.panel ? rising(levels(tables, roles.panel)) : [null]).slice(0, MOST_PANELS);
  const lines = roles.line ? rising(levels(tables, roles.line)) : [null];
  const panels = titles.map((title) => [title, items.flatMap((one) => lines.map((line) => ({ one, line, spots: spots(one, title, line) }))).filter(({ spots: own }) => own.length)]);
  const spotsOf = (drawn) => drawn.flatMap(({ spots: own }) => own), all = panels.flatMap(([, drawn]) => spotsOf(drawn));
  const shown = panels.filter(([, drawn]) => drawn.length);
  home.replaceChildren(...shown.map(([title]) => element("div", {}, element("h3", {}, title === null ? "" : roles.panel === "varied" ? `more ${title}` : `${roles.panel} ${String(title).replaceAll(",", ", ")}`), element("div", {}))));
  return Promise.all(shown.map(([title, drawn], place) => {
    const traces = [...guesses(tables, title), ...drawn.map((each) => panelLine(each, lines))];
    const across = roles.x === "@varied" ? spotsOf(drawn) : all; // what is varied has no common axis
    return Plotly.newPlot(home.children[place].lastChild, traces, frameOf(across, all, title), small());
  }));
}

const rising = (values) => (isNumber(values) ? [...values].sort((a, b) => a - b) : values);

/** The rows of a table that belong to a panel and a line: their places. */
function rowsOf(table, title, line) {
  const is = (name, level) => level === null || columnOf(table, name)?.map((value) => value === level);
  const [inPanel, inLine] = [is(roles.panel, title), is(roles.line, line)];
  const whole = columnOf(table, roles.x) ?? [];
  return whole.map((_, row) => row).filter((row) => (inPanel === true || inPanel?.[row]) && (inLine === true || inLine?.[row]));
}

/** One an x, rising: the mean over cells, each the mean of its own rows there, and the interval. */
function spots(one, title, line) {
  const scored = one.tables.flatMap((table) => {
    const xs = columnOf(table, roles.x), ys = columnOf(table, roles.y);
    const rows = xs && ys ? rowsOf(table, title, line).filter((row) => typeof ys[row] === "number" && xs[row] !== null) : [];
    return [...Map.groupBy(rows, (row) => xs[row])].map(([x, own]) => [x, mean(own.map((row) => ys[row]))]);
  });
  const byX = Map.groupBy(scored, ([x]) => x);
  return rising([...byX.keys()]).map((x) => {
    const seeds = byX.get(x).map(([, y]) => y), [low, high] = interval(seeds, DATA.resamples);
    return { x, y: mean(seeds), low: low ?? mean(seeds), high: high ?? mean(seeds), seeds: seeds.length };
  });
}

function panelLine({ one, line, spots: own }, lines) {
  const strength = lines.length > 2 ? 0.35 + (0.65 * lines.indexOf(line)) / (lines.length - 1) : 1;
  const about = `<b>${plotText(one.name)}</b>${line === null ? "" : `<br>${plotText(roles.line)} ${plotText(line)}`}`;
  const y = own.map((spot) => spot.y), x = own.map((spot) => spot.x);
  return {
    x, y, type: "scatter", mode: `lines+markers${line === null ? "" : "+text"}`, opacity: strength, cliponaxis: false,
    text: own.map((_, place) => (place === own.length - 1 && line !== null ? ` ${plotText(line)}` : "")),
    textposition: "middle right", textfont: { size: 10, color: LOOK.grey },
    hoverinfo: "text", hovertext: own.map((spot) => `${about}<br>${plotText(roles.x.replace("@", ""))} ${plotText(spot.x)}: ${short(spot.y)}${spot.seeds > 1 ? ` (${short(spot.low)} to ${short(spot.high)}, ${plural(spot.seeds, "seed")})` : ""}`),
    line: { color: one.colour, width: 1.6, dash: lines.length === 2 && line === lines[1] ? "dash" : one.dash }, marker: { size: 5, color: one.colour },
    error_y: { type: "data", symmetric: false, thickness: 1, width: 2, color: one.colour, array: own.map((spot) => spot.high - spot.y), arrayminus: own.map((spot) => spot.y - spot.low) },
  };
}

/** What a guess scores, where the table says it. */
function guesses(tables, title) {
  const name = ["chance", "guess"].find((each) => tables.some((table) => table[each]));
  if (!name || roles.y !== "accuracy") return [];
  const pairs = tables.filter((table) => table[name]).flatMap((table) => rowsOf(table, title, null).map((row) => [columnOf(table, roles.x)[row], table[name][row]]));
  const byX = Map.groupBy(pairs.filter(([x, y]) => x !== null && y !== null), ([x]) => x), x = rising([...byX.keys()]);
  return [quiet({ x, y: x.map((each) => mean(byX.get(each).map(([, y]) => y))), mode: "lines", line: { color: LOOK.grey, width: 1.1, dash: "dashdot" } })];
}

/** The layout of a panel: x is that of the spots `across`, y the same in all panels, so that they can be compared. */
function frameOf(across, all, title) {
  const xs = across.map((spot) => spot.x), ys = all.flatMap((spot) => [spot.low, spot.high]);
  const layout = smallLayout(roles.x === "@varied" ? String(title ?? "what is varied") : roles.x, roles.y);
  const numbers = isNumber(xs), share_ = ys.every((y) => y >= 0 && y <= 1);
  const far = (values) => values.every((value) => value > 0) && Math.max(...values) / Math.min(...values) >= FAR;
  layout.xaxis.title.text = plotText(layout.xaxis.title.text);
  layout.yaxis.title.text = plotText(layout.yaxis.title.text);
  const log = numbers && far(xs);
  layout.xaxis.type = log ? "log" : numbers ? "linear" : "category";
  if (numbers) Object.assign(layout.xaxis, sparse(rising([...new Set(xs)]), log));
  if (!share_) {
    const up = far(ys), edge = (y, by) => (up ? Math.log10(y * (1 + by)) : y + by * (Math.max(...ys) - Math.min(...ys) || 1));
    Object.assign(layout.yaxis, { type: up ? "log" : "linear", range: [edge(Math.min(...ys), -0.08), edge(Math.max(...ys), 0.08)], tickformat: "~s", ...(up ? { dtick: Math.max(...ys) / Math.min(...ys) > 100 ? 1 : "D2" } : {}) });
  }
  layout.margin = { ...layout.margin, l: 52, r: roles.line ? 44 : 10 };
  return layout;
}

/** Ticks at some of the places that there are. */
function sparse(places, log) {
  const stride = Math.ceil(places.length / 5), tickvals = places.filter((_, place) => place % stride === 0);
  const room = log ? [Math.log10(places[0]) - 0.1, Math.log10(places.at(-1)) + 0.1] : [places[0], places.at(-1)].map((end, place) => end + (place ? 1 : -1) * 0.05 * (places.at(-1) - places[0] || 1));
  return { tickmode: "array", tickvals, ticktext: tickvals.map((value) => (value >= 1000 ? count(value) : short(value))), range: room, autorange: false };
}
