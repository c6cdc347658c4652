// The controls at the left: lists of boxes that are all ticked at first.

/** A list of boxes in a home: Map value -> box.  changed() is called after any change. */
function boxes(home, values, text, changed, ...before) {
  const made = new Map();
  const rows = values.map((value, place) => {
    const box = element("input", { type: "checkbox", checked: true, change: changed });
    made.set(value, box);
    const only = element("button", { type: "button", class: "only", click: () => (tick(made, (each) => each === value), changed()) }, "only");
    only.setAttribute("aria-label", `only ${text(value)}`);
    return element("div", { class: "choice" }, element("label", {}, box, ...before.map((make) => make(place)), text(value)), element("span", { class: "actions" }, only));
  });
  byId(home).replaceChildren(...rows);
  return made;
}

const tick = (boxes, wanted) => boxes.forEach((box, value) => (box.checked = wanted(value)));
const ticked = (boxes) => new Set([...boxes].filter(([, box]) => box.checked).map(([value]) => value));

/** The series, by family: the list is the legend of the picture too. */
function seriesBoxes(setting, changed) {
  const list = setting.series;
  const made = boxes("series", list.map((series) => series.name), (name) => name, () => (follow(), changed()), (place) => glyph(list[place]));
  const families = Map.groupBy(list, (series) => series.family);
  const heads = new Map();
  for (const [family, members] of families) {
    const names = new Set(members.map((series) => series.name));
    const box = element("input", {
      type: "checkbox", checked: true,
      change: () => (names.forEach((name) => (made.get(name).checked = box.checked)), changed()),
    });
    heads.set(family, [box, names]);
    made.get(members[0].name).closest(".choice").before(element("div", { class: "choice family" }, element("label", {}, box, family)));
  }
  function follow() {
    for (const [box, names] of heads.values()) {
      const on = [...names].filter((name) => made.get(name).checked).length;
      box.checked = on > 0;
      box.indeterminate = on > 0 && on < names.size;
    }
  }
  for (const [name, box] of made) {
    const together = element("button", { type: "button", class: "only", click: () => chooseSeries(name) }, "compare");
    together.setAttribute("aria-label", `compare the points of ${name}`);
    box.closest(".choice").querySelector(".actions").prepend(together);
  }
  return { made, follow };
}

/** Hide the names of which no point fits what is typed; Enter keeps these alone. */
function find(series, typed) {
  view.typed = typed.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const { points: of } = view.setting;
  const names = new Set(of.series.filter((_, place) => passes(view, place)));
  const fits = (name) => !view.typed.length || names.has(name);
  series.made.forEach((box, name) => (box.closest(".choice").hidden = !fits(name)));
  for (const head of document.querySelectorAll(".choice.family")) head.hidden = view.typed.length > 0;
  return fits;
}

/** The marks and names of what is in view, for where the list of mixers is folded away: below the picture. */
function legend(view) {
  const shown = view.setting.series.filter((series) => view.series.has(series.name));
  const rows = [...Map.groupBy(shown, ({ colour, symbol }) => colour + symbol).values()].map((alike) => {
    const [text, click] = alike.length === 1 ? [alike[0].name, () => chooseSeries(alike[0].name)] : [`${alike[0].family} (${alike.length})`, unfold];
    return element("button", { type: "button", click }, glyph(alike[0]), text);
  });
  byId("legend").replaceChildren(...rows);
}

/** The list of mixers, with all their names. */
function unfold() {
  byId("filters").open = true;
  byId("filters").scrollIntoView();
}
