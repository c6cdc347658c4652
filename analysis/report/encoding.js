// By any setting: colour, shape, a panel for each, labels, and what is in view.  "" is as the page opens: by mixer.

const ENCODED = ["colour", "shape", "facet", "label"];
const KNOBS = "its knobs"; // a label that is no key
const RISING = ["#440154", "#3b528b", "#21918c", "#5ec962", "#c8b100"]; // of numbers: viridis, its yellow darker
const SHAPE_ORDER = ["circle", "square", "triangle-up", "diamond", "triangle-down", "pentagon", "cross", "star", "hexagon", "triangle-left", "triangle-right", "octagon"];
const encode = { colour: "", shape: "", facet: "", label: "" };
const where = new Map(); // key -> boxes by value: what is in view

/** {colour, symbol, size, name} of a point, by what is encoded; the name is that of the legend. */
function lookOf(view, point) {
  const series = seriesOf(view).get(point.series);
  const colour = encode.colour ? colourOf(encode.colour, valueOf(encode.colour, point)) : shade(series.colour);
  const symbol = encode.shape ? symbolOf(encode.shape, valueOf(encode.shape, point)) : series.symbol;
  const named = (what) => `${encode[what]}=${valueOf(encode[what], point)}`;
  const names = [encode.colour ? named("colour") : point.series, ...(encode.shape && encode.shape !== encode.colour ? [named("shape")] : [])];
  return { colour, symbol, size: series.size, name: names.join(", ") };
}

const symbolOf = (key, value) => SHAPE_ORDER[levelsOf(key).indexOf(value) % SHAPE_ORDER.length];

function colourOf(key, value) {
  if (value === LACKING) return LOOK.faint;
  const known = levelsOf(key).filter((level) => level !== LACKING), place = known.indexOf(value);
  if (!isNumeric(known) || known.length < 3) return shade(HUES[place % HUES.length]);
  return shade(between(RISING, place / (known.length - 1)));
}

/** A colour at a share of the way through some. */
function between(colours, share) {
  const at = share * (colours.length - 1), low = Math.min(Math.floor(at), colours.length - 2), part = at - low;
  const [from, to] = [channels(colours[low]), channels(colours[low + 1])];
  return `#${from.map((channel, place) => Math.round(channel + (to[place] - channel) * part).toString(16).padStart(2, "0")).join("")}`;
}

/** Of a line through a series: its colour, or none in particular where another setting is coloured. */
const lineColour = (view, name) => (encode.colour ? LOOK.faint : shade(seriesOf(view).get(name).colour));

/** The value of the labelled setting beside each point. */
function labels(points, at) {
  if (!encode.label) return [];
  const text = (point) => (encode.label === KNOBS ? point.knobs.split(" ").map((pair) => pair.split("=").at(-1)).join("/") || `d${point.d_model}` : valueOf(encode.label, point));
  const own = finishedOf(points);
  return [quiet({
    x: own.map(at), y: own.map(topOf), mode: "markers+text", marker: { size: 11, opacity: 0 }, text: own.map((point) => plotText(text(point)).slice(0, 40)),
    textposition: "top center", textfont: { size: 10, color: LOOK.grey }, cliponaxis: false,
  })];
}

/** Whether a point is in view by the boxes of settings and by what is typed into the search. */
function passes(view, place) {
  for (const [key, made] of where) if (!made.get(view.keys.get(key)?.[place] ?? LACKING)?.checked) return false;
  const { series, mixer, knobs, d_model } = view.setting.points;
  const text = `${series[place]} ${mixer[place]} d_model=${d_model[place]} ${knobs[place]}`.toLowerCase();
  return view.typed.every((word) => text.includes(word));
}

/** What the colours and shapes are, below the picture. */
function encodedLegend() {
  const rows = ["colour", "shape"].filter((what) => encode[what]).map((what) => {
    const key = encode[what], plain = { colour: LOOK.grey, symbol: "circle" };
    const one = (level) => ({ ...plain, ...(what === "colour" ? { colour: colourOf(key, level) } : { symbol: symbolOf(key, level) }) });
    const shown = levelsOf(key).filter((level) => points.some((point) => valueOf(key, point) === level)).slice(0, MOST_LEVELS);
    return element("div", { class: "chips" }, element("b", {}, key), ...shown.map((level) => element("span", { class: "chip plain" }, glyph(one(level)), level)));
  });
  byId("encoded").replaceChildren(...rows);
}

/** Fill the choices with the keys of this setting; what is chosen and is not among them is dropped. */
async function setUpKeys() {
  const keys = await keysOf(view.setting);
  view.keys = keys;
  for (const what of ENCODED) {
    const first = { colour: "mixer", shape: "mixer", facet: "none", label: "none" }[what];
    const options = [["", first], ...(what === "label" ? [[KNOBS, KNOBS]] : []), ...[...keys.keys()].map((key) => [key, key])];
    if (!options.some(([value]) => value === encode[what])) encode[what] = "";
    const home = byId(`by-${what}`);
    home.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
    home.value = encode[what];
  }
  const left = [...keys.keys()].filter((key) => !where.has(key) && levelsOf(key).length <= MOST_LEVELS);
  byId("by-filter").replaceChildren(element("option", { value: "" }, "a setting ..."), ...left.map((key) => element("option", { value: key }, key)));
}

/** A list of boxes for the values of a key, all ticked. */
function addFilter(key) {
  if (where.has(key) || !view.keys.has(key)) return;
  const away = element("button", { type: "button", click: () => (where.delete(key), home.remove(), setUpKeys(), changed()) }, "\u00d7");
  away.setAttribute("aria-label", `any ${key}`);
  const inner = element("div", { id: `where-${where.size}-${key.replace(/\W/g, "-")}`, class: "columns" });
  const home = element("fieldset", { class: "where" }, element("legend", {}, key, " ", away), inner);
  byId("where").append(home);
  where.set(key, boxes(inner.id, levelsOf(key), (level) => level, changed));
}

/** As the page opens: no filter by a setting, colours and shapes by mixer. */
function plainView() {
  where.clear();
  brushes.clear();
  byId("where").replaceChildren();
  for (const what of ENCODED) byId(`by-${what}`).value = encode[what] = "";
}

function listenToKeys() {
  byId("by-setting").addEventListener("toggle", async () => byId("by-setting").open && (await setUpKeys(), showParallel()));
  for (const what of ENCODED) byId(`by-${what}`).addEventListener("change", (event) => ((encode[what] = event.target.value), changed()));
  byId("by-filter").addEventListener("change", (event) => (addFilter(event.target.value), setUpKeys(), changed()));
}
