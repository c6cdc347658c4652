// The record of one cell: the command that makes it again, and its config.

/** Which of the chosen cells the command and the config below are of. */
function cellChoice(items) {
  const { cells } = view.setting;
  const groups = items.map(({ item, point, name }) => {
    const own = item.cell === null ? cellsOf(point) : [item.cell];
    const options = own.map((each) => {
      const end = cells.diverged[each] ? "diverged" : share(score(view.setting, view.split, view.slices, each));
      return element("option", { value: each, selected: each === shownCell }, `lr ${short(cells.lr[each])}, seed ${cells.seed[each]}: ${end}`);
    });
    return element("optgroup", { label: name }, ...options);
  });
  const pick = (event) => ((shownCell = Number(event.target.value)), chosenAnew());
  const select = element("select", { id: "cell", change: pick }, ...groups);
  const from = DATA.made.names.length > 1 ? ` in ${DATA.made.names[cells.origin[shownCell]]}` : "";
  return element("div", { class: "row" }, element("label", {}, "Cell ", select), element("small", {}, cells.run_id[shownCell] + from));
}

function record({ command, config, revision, clean }) {
  const code = element("pre", { id: "command" }, command || "Its record does not say with which words it was run.");
  const copy = element("button", { type: "button", click: () => copied(copy, command) }, "copy");
  const made = revision ? `made at git revision ${revisionText(revision, clean)}` : "";
  return element("div", {},
    element("div", { class: "row" }, element("h3", {}, "The command that makes it again"), copy, element("small", {}, made)),
    code,
    element("details", {}, element("summary", {}, "Its config"), element("pre", { id: "config" }, config || "Its config.yaml could not be read.")));
}

const revisionText = (revision, clean) => String(revision).slice(0, 12) + (clean ? "" : ", with changes that were not committed");

async function copied(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "copied";
}
