// What is done once: fill the choices, listen, and say what is wrong with the results.

function start() {
  DATA.settings.forEach((setting, place) => {
    byId("setting").append(element("option", { value: place }, `${setting.name} (${plural(setting.cells.run_id.length, "cell")})`));
  });
  byId("setting-choice").hidden = DATA.settings.length === 1;
  for (const axis of DATA.axes) byId("axis").append(element("option", { value: axis.key }, axis.short));
  byId("summary").textContent = summaryLine();
  byId("filters").open = innerWidth > 860;
  alarms();
  listed();
  setUp();
  listen();
  render();
  byId("picture").on("plotly_click", ({ points: [hit] }) => hit.customdata !== undefined && choose(hit.customdata));
  byId("picture").on("plotly_relayout", (change) => "xaxis.range[0]" in change && retick([change["xaxis.range[0]"], change["xaxis.range[1]"]]));
}

function listen() {
  byId("setting").addEventListener("change", () => (setUp(), changed()));
  for (const id of ["split", "axis", "show-intervals", "show-lines", "show-bound"]) byId(id).addEventListener("change", changed);
  matchMedia("(max-width: 700px)").addEventListener("change", changed);
  byId("cells-section").addEventListener("toggle", showTables);
  byId("reset").addEventListener("click", everything);
  byId("save").addEventListener("click", save);
  const all = (wanted) => () => (tick(controls.series.made, wanted), controls.series.follow(), changed());
  byId("all-series").addEventListener("click", all(() => true));
  byId("no-series").addEventListener("click", all(() => false));
  byId("find").addEventListener("input", (event) => find(controls.series, event.target.value));
  byId("find").addEventListener("keydown", (event) => event.key === "Enter" && all(find(controls.series, event.target.value))());
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
  for (const line of DATA.alarms) home.append(element("p", { class: "alarm", role: "alert" }, line));
  if (DATA.problems.length) {
    const text = `${plural(DATA.problems.length, "record")} could not be used; the rest is drawn. `;
    home.append(element("p", { class: "note" }, text, element("a", { href: "#unread-section" }, "Which, and why")));
  }
}

/** Failures, one entry for each message, and records that were not read. */
function listed() {
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
