// What is done once: fill the choices, listen, and say what is wrong with the results.

function start() {
  byId("filters").open = innerWidth > 860;
  fill();
  reopen();
  listen();
  listenToEvaluations();
  listenToKeys();
  listenToAnswers();
}

/** What the results say whatever is chosen: which settings there are, where they are from, what is wrong with them. */
function fill() {
  byId("setting").replaceChildren();
  byId("axis").replaceChildren();
  DATA.settings.forEach((setting, place) => {
    byId("setting").append(element("option", { value: place }, `${setting.name} (${plural(setting.cells.run_id.length, "cell")})`));
  });
  byId("setting-choice").hidden = DATA.settings.length === 1;
  for (const axis of DATA.axes) byId("axis").append(element("option", { value: axis.key }, axis.short));
  byId("summary").textContent = summaryLine();
  byId("made").replaceChildren(...provenance());
  alarms();
  listed();
}

/** The picture answers to clicks, boxes and zooms; once it is drawn. */
function listenToPicture() {
  const picture = byId("picture");
  picture.on("plotly_click", ({ points: [hit], event }) => {
    if (hit.customdata !== undefined) choose(hit.customdata, { more: wantsMore(event) });
  });
  picture.on("plotly_selected", (area) => {
    const hits = area ? area.points.map((hit) => hit.customdata) : [];
    const places = [...new Set(hits.filter((place) => place !== undefined))];
    if (!places.length) return; // the box that is taken away below
    only(places.map((place) => [place, null]));
    Plotly.restyle(picture, { selectedpoints: null });
    Plotly.relayout(picture, { selections: [] });
    chosenAnew();
  });
  picture.on("plotly_relayout", (change) => {
    if ("xaxis.range[0]" in change) retick([change["xaxis.range[0]"], change["xaxis.range[1]"]]);
    if (Object.keys(change).some((key) => key.includes("range"))) (remember(), showCaption());
  });
}

/** Whether a click adds to what is chosen. */
const wantsMore = (event) => byId("adding").checked || event.ctrlKey || event.metaKey || event.shiftKey;

const MOST_NAMED = 8; // folders and archives, above the picture
let heard = false;
/** Show what the address says. */
async function reopen() {
  const said = recall();
  if (asksForKeys(said)) await recallKeys(said);
  const drawn = render();
  if (!heard) listenToPicture();
  heard = true;
  await drawn;
  await recallDrawn(said);
}

function listen() {
  byId("setting").addEventListener("change", () => (setUp(), changed()));
  for (const id of ["split", "axis", "show-intervals", "show-lines", "show-bound"]) byId(id).addEventListener("change", changed);
  matchMedia("(max-width: 700px)").addEventListener("change", changed);
  byId("theme").addEventListener("change", redress);
  DARK.addEventListener("change", redress);
  addEventListener("hashchange", reopen);
  for (const format of ["svg", "png"]) byId(`save-${format}`).addEventListener("click", () => savePicture(format));
  byId("save-cells").addEventListener("click", saveCells);
  for (const id of ["cells-section", "pairs-section"]) byId(id).addEventListener("toggle", showTables);
  byId("reset").addEventListener("click", everything);
  byId("save").addEventListener("click", savePoints);
  const all = (wanted) => () => (tick(controls.series.made, wanted), controls.series.follow(), (byId("find").value = ""), find(controls.series, ""), changed());
  byId("all-series").addEventListener("click", all(() => true));
  byId("no-series").addEventListener("click", all(() => false));
  byId("find").addEventListener("input", (event) => (find(controls.series, event.target.value), changed()));
  byId("find").addEventListener("keydown", (event) => event.key === "Enter" && all(find(controls.series, event.target.value))());
}

/** Other colours: the list of mixers has its marks anew, and keeps its ticks. */
function redress() {
  dress();
  for (const [name, box] of controls.series.made) {
    const series = view.setting.series.find((each) => each.name === name);
    box.parentElement.querySelector("svg").replaceWith(glyph(series));
  }
  changed();
}

/** When the page was made, from what, and at which revisions its cells were run. */
function provenance() {
  const { when, names, twice, revisions } = DATA.made;
  const known = revisions.filter(([revision]) => revision);
  const said = known.slice(0, 3).map(([revision, clean, cells]) => `${revisionText(revision, clean)}${known.length > 1 ? ` (${plural(cells, "cell")})` : ""}`);
  const more = known.length > 3 ? [` and ${known.length - 3} more`] : [];
  const unknown = sum(revisions.filter(([revision]) => !revision).map(([, , cells]) => cells));
  const parts = [
    when ? `Made ${when}.` : "",
    names.length > 1 ? `From ${names.slice(0, MOST_NAMED).join(", ")}${names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : ""}${twice ? `; ${plural(twice, "record")} there twice, and counted once` : ""}.` : "",
    known.length ? `Run at git revision ${said.join("; ")}${more.join("")}.` : "",
    unknown ? `${plural(unknown, "cell")} without a revision on record.` : "",
  ];
  return [parts.filter(Boolean).join(" ")];
}

/** Ticks for what is in view after zooming. */
function retick(range) {
  const { tickmode, tickvals, ticktext } = ticks(view.axis, range.map((power) => 10 ** power));
  Plotly.relayout("picture", { "xaxis.tickmode": tickmode, "xaxis.tickvals": tickvals, "xaxis.ticktext": ticktext });
}

function summaryLine() {
  const cells = DATA.settings.reduce((total, setting) => total + setting.cells.run_id.length, 0);
  const points = DATA.settings.reduce((total, setting) => total + setting.points.point.length, 0);
  const parts = [plural(cells, "cell"), plural(points, "point")];
  if (DATA.settings.length > 1) parts.push(`${plural(DATA.settings.length, "setting")}, each a picture of its own`);
  if (DATA.failures.length) parts.push(`${count(DATA.failures.reduce((total, group) => total + group.run_ids.length, 0))} failed`);
  return parts.join(", ");
}

function alarms() {
  const home = byId("alarms");
  home.replaceChildren();
  for (const line of DATA.alarms) home.append(element("p", { class: "alarm", role: "alert" }, line));
  if (DATA.problems.length) {
    const text = `${plural(DATA.problems.length, "record")} could not be used in full; the rest is drawn. `;
    home.append(element("p", { class: "note" }, text, element("a", { href: "#unread-section" }, "Which, and why")));
  }
}

/** Failures, one entry for each message, and records that were not read. */
function listed() {
  for (const id of ["failed", "unread", "key"]) byId(id).replaceChildren();
  byId("failed-section").hidden = !DATA.failures.length;
  const failed = DATA.failures.reduce((total, group) => total + group.run_ids.length, 0);
  byId("failed-count").textContent = plural(failed, "cell");
  for (const { first, run_ids, traceback } of DATA.failures) {
    const of = run_ids.length === 1 ? run_ids[0] : plural(run_ids.length, "cell");
    const shown = run_ids.length === 1 ? "" : `${run_ids.join(", ")}\n\nof the first:\n\n`;
    byId("failed").append(element("details", {}, element("summary", {}, `${of}: ${first}`), element("pre", {}, shown + traceback)));
  }
  byId("unread-section").hidden = !DATA.problems.length;
  byId("unread-count").textContent = plural(DATA.problems.length, "record");
  const lines = DATA.problems.map(({ where, why }) => element("li", {}, element("b", {}, where), `: ${why}`));
  byId("unread").append(element("ul", {}, ...lines));
  for (const line of DATA.key) byId("key").append(element("li", {}, line));
}
