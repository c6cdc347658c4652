// Where is one right and another wrong?  Scored places of test rows, as evaluation=answers wrote them for each cell,
// laid side by side for the points that are chosen: the same seed, row and place.

const VERDICTS = { // of [the first is right, the second is right]
  all: ["all places", () => true],
  "right-wrong": ["the first right, the second wrong", (a, b) => a && !b],
  "wrong-right": ["the first wrong, the second right", (a, b) => !a && b],
  "both-wrong": ["both wrong", (a, b) => !a && !b],
  "both-right": ["both right", (a, b) => a && b],
};
const NEEDED = ["slice", "example", "place", "target", "answer", "right", "tokens"]; // columns
let answerRows = [], openedRow = null;

const answerQuestions = (all) => all.filter(({ name }) => name === "answers");

/** Show the section where a cell of this setting has answers; draw it where it is open. */
async function showAnswers() {
  const section = byId("answers-section"), here = new Set(view.setting.cells.run_id), turn = evaluationTurn;
  section.hidden = !answerQuestions(DATA.evaluations).some(({ run_ids }) => run_ids.some((run_id) => here.has(run_id)));
  if (section.hidden || !section.open) return;
  const questions = answerQuestions(await unpacked("evaluations"));
  if (turn !== evaluationTurn) return;
  const items = compared().map((one) => ({ ...one, places: placesOf(one, questions) })).filter(({ places }) => places.size);
  answerRows = items.length ? sideBySidePlaces(items) : [];
  fillAnswerChoices(items);
  const shown = answerRows.filter(rowFits);
  byId("answers-note").textContent = answersNote(items, shown);
  tables.answers = table("answers", answerColumns(items), shown, { pick: (row) => openRow(row, items), hue: (row) => (row === openedRow ? LOOK.ink : null), alone: true });
  if (!shown.includes(openedRow)) byId("answer-row").replaceChildren();
}

/** key of a place -> what one item answered there, over its cells. */
function placesOf(one, questions) {
  const { cells } = view.setting;
  return new Map(one.cells.flatMap((cell) => {
    const answered = questions.map((question) => question.cells[cells.run_id[cell]]).find((each) => each && NEEDED.every((name) => each[name]));
    if (!answered) return [];
    let tokens = "";
    return answered.place.map((place, row) => {
      tokens = answered.tokens[row] && answered.tokens[row] !== "nan" ? String(answered.tokens[row]) : tokens;
      const at = { seed: cells.seed[cell], tokens };
      for (const name of Object.keys(answered)) if (name !== "tokens") at[name] = answered[name][row];
      return [[at.seed, at.slice, at.example, place, at.target, tokens].join("|"), at];
    });
  }));
}

/** The places that all items were asked: {at, answers}. */
function sideBySidePlaces(items) {
  const [first, ...others] = items;
  return [...first.places].filter(([key]) => others.every(({ places }) => places.has(key)))
    .map(([key, at]) => ({ at, answers: items.map(({ places }) => places.get(key)) }));
}

/** Which item is the first and which the second, and the slices and groups that can be picked. */
function fillAnswerChoices(items) {
  for (const [id, place] of [["answer-first", 0], ["answer-second", 1]]) {
    const home = byId(id), names = items.map(({ name }) => name), before = home.value;
    home.replaceChildren(...names.map((name, at) => element("option", { value: at }, name)));
    home.value = names[before] === undefined || items.length < 2 ? Math.min(place, names.length - 1) : before;
    if (id === "answer-second" && home.value === byId("answer-first").value && items.length > 1) home.value = byId("answer-first").value === "0" ? "1" : "0";
  }
  const slices = [...new Set(answerRows.map(({ at }) => at.slice))], chosen = byId("answer-slice").value;
  byId("answer-slice").replaceChildren(element("option", { value: "" }, "all slices"), ...slices.map((name) => element("option", { value: name }, name.replaceAll(",", ", "))));
  byId("answer-slice").value = slices.includes(chosen) ? chosen : "";
  fillGroups();
}

const NO_GROUP = new Set(["split", "seed", "tokens", "source", "distance", "answer", "right", ...NEEDED]);
/** The columns by which answers are told apart, beside slice and distance. */
function groupsOf({ at }) {
  return Object.keys(at).filter((name) => !NO_GROUP.has(name) && !`,${at.slice}`.includes(`,${name}=`));
}

/** A choice for each group and value of it. */
function fillGroups() {
  const home = byId("answer-group"), before = home.value, groups = answerRows.length ? groupsOf(answerRows[0]) : [];
  const options = groups.flatMap((name) => [...new Set(answerRows.map(({ at }) => at[name]))].sort().map((value) => {
    return element("option", { value: JSON.stringify([name, value]) }, `${name} ${value}`);
  }));
  home.hidden = !options.length;
  home.replaceChildren(element("option", { value: "" }, "all groups"), ...options);
  home.value = options.some(({ value }) => value === before) ? before : "";
}

function rowFits({ at, answers }) {
  const [first, second] = ["answer-first", "answer-second"].map((id) => answers[Number(byId(id).value)]?.right === 1);
  const ends = ["answer-from", "answer-to"].map((id) => byId(id).value).map((text) => (text === "" ? null : Number(text)));
  const far = ends.every((end) => end === null) || (typeof at.distance === "number" && at.distance >= (ends[0] ?? 0) && at.distance <= (ends[1] ?? Infinity));
  const slice = byId("answer-slice").value, [group, value] = JSON.parse(byId("answer-group").value || "[]");
  return VERDICTS[byId("answer-verdict").value][1](first, second) && far && (!slice || at.slice === slice) && (!group || at[group] === value);
}

function answersNote(items, shown) {
  if (!items.length) return "Choose points that were asked (python -m zoo.evaluate RESULTS evaluation=answers): two, to see where they differ.";
  if (!answerRows.length) return "They were not asked the same rows: their seeds or their tasks differ.";
  const [first, second] = ["answer-first", "answer-second"].map((id) => Number(byId(id).value));
  const counted = (verdict) => count(answerRows.filter(({ answers }) => VERDICTS[verdict][1](answers[first].right === 1, answers[second].right === 1)).length);
  const pair = items.length > 1 ? ` Both right ${counted("both-right")}, only the first ${counted("right-wrong")}, only the second ${counted("wrong-right")}, neither ${counted("both-wrong")}.` : "";
  return `${count(shown.length)} of ${plural(answerRows.length, "place")} that all of them were asked (at the learning rate that is drawn, each seed on its own rows).${pair}`;
}

function answerColumns(items) {
  const number = (title, name) => ({ title, number: true, value: ({ at }) => at[name] ?? null, text: ({ at }) => (typeof at[name] === "number" ? String(at[name]) : "-") });
  const groups = answerRows.length ? groupsOf(answerRows[0]) : [];
  return [
    { title: "slice", value: ({ at }) => at.slice, first: true, words: true, text: ({ at }) => at.slice.replaceAll(",", ", ") },
    number("right token", "target"),
    ...items.map((one, place) => ({ title: one.name, number: true, value: ({ answers }) => answers[place].right, text: ({ answers }) => `${answers[place].answer} ${answers[place].right === 1 ? "\u2713" : "\u2717"}` })),
    number("distance", "distance"), ...groups.map((name) => ({ title: name, value: ({ at }) => at[name] ?? null })),
    number("seed", "seed"), number("row", "example"), number("place", "place"),
  ];
}

/** A row as its tokens: the place that asks, the key and the value that it is read from, and what each item answered. */
function openRow(row, items) {
  openedRow = row;
  tables.answers.colour();
  const { at } = row, tokens = at.tokens.split(" "), marks = new Map();
  for (const { at: other, answers } of answerRows) {
    if (other.tokens === at.tokens && other.seed === at.seed && other.slice === at.slice) marks.set(other.place, answers.every(({ right }) => right === 1) ? "fine" : "wrong");
  }
  const known = typeof at.source === "number", value = known ? valuePlace(tokens, at) : null;
  const key = known && value !== null ? (value === at.source ? at.source - 1 : at.source) : null;
  const role = (place) => (place === at.place ? "asks" : place === value ? "value" : place === key ? "key" : marks.get(place) ?? "");
  const names = { asks: "is asked here", value: "the value", key: "the key", fine: "asked, all right", wrong: "asked, not all right" };
  const spans = tokens.map((token, place) => element("span", { class: `token ${role(place)}`, title: `place ${place}${role(place) ? `: ${names[role(place)]}` : ""}` }, token));
  const far = known ? `; it is read ${plural(at.distance, "token")} before` : "";
  byId("answer-row").replaceChildren(
    element("p", {}, `Place ${at.place} of row ${at.example} (seed ${at.seed}, ${at.slice.replaceAll(",", ", ")}) asks for ${at.target}${far}. `,
      ...row.answers.map(({ answer, right }, place) => element("span", { class: "chip" }, swatch(items[place]), `${items[place].name}: ${answer} ${right === 1 ? "\u2713" : "\u2717"}`))),
    element("p", { class: "tokens" }, ...spans),
    element("p", { class: "hint" }, ...["asks", "key", "value", "fine", "wrong"].flatMap((each) => [element("span", { class: `token ${each}` }, names[each]), " "])));
}

/** Where the value stands: at the source, or after it where the source is the key. */
const valuePlace = (tokens, { source, target }) => [source, source + 1].find((place) => tokens[place] === String(target)) ?? null;

function listenToAnswers() {
  for (const [value, [text]] of Object.entries(VERDICTS)) byId("answer-verdict").append(element("option", { value }, text));
  byId("answers-section").addEventListener("toggle", showAnswers);
  for (const id of ["answer-first", "answer-second", "answer-verdict", "answer-slice", "answer-group", "answer-from", "answer-to"]) byId(id).addEventListener("change", showAnswers);
}
