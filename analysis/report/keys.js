// Every setting of a point, by its key: what its config says, and what it is drawn by anyway.  Configs are unpacked
// when a setting is first asked for.

const LACKING = "\u2013";
const OF_THE_CELL_ALONE = /^(lr|seed|results|logger\b.*|rerun|keep_weights|population|kernels|trainer\.(accelerator|step|threads|checkpoint_.*))$/;
const BUILT_IN = ["mixer", "series", "family", "d_model", "n_layers"];
const keyedSettings = new Map(); // setting -> promise of Map key -> its value at each point, as text

function keysOf(setting) {
  if (!keyedSettings.has(setting)) keyedSettings.set(setting, readKeys(setting));
  return keyedSettings.get(setting);
}

/** The keys that take two values here; those that most points have first. */
async function readKeys(setting) {
  const all = await details(), { points: of, cells } = setting;
  const first = of.point.map((_, place) => cells.point.indexOf(place));
  const configs = first.map((cell) => flattened(all[cells.run_id[cell]]?.config ?? ""));
  const names = [...new Set(configs.flatMap((config) => [...config.keys()]))].filter((key) => !OF_THE_CELL_ALONE.test(key));
  const columns = [
    ...BUILT_IN.map((key) => [key, of[key].map(String)]),
    ["from", first.map((cell) => DATA.made.names[cells.origin[cell]])],
    ...names.filter((key) => !BUILT_IN.includes(key)).map((key) => [key, configs.map((config) => config.get(key) ?? LACKING)]),
  ];
  const varied = columns.filter(([, values]) => new Set(values).size > 1);
  const known = ([, values]) => values.filter((value) => value !== LACKING).length;
  return new Map(varied.sort((a, b) => BUILT_IN.includes(b[0]) - BUILT_IN.includes(a[0]) || known(b) - known(a)));
}

/** The value of a key at a point. */
const valueOf = (key, point) => view.keys.get(key)?.[point.place] ?? LACKING;

/** The values that a key takes in this setting: numbers rising, what lacks it last. */
function levelsOf(key) {
  const values = [...new Set(view.keys.get(key) ?? [])], numbers = values.filter((value) => value !== LACKING);
  const rises = isNumeric(numbers) ? (a, b) => a - b : (a, b) => a.localeCompare(b);
  return [...numbers.sort(rises), ...(values.includes(LACKING) ? [LACKING] : [])];
}

const isNumeric = (values) => values.length > 0 && values.every((value) => value.trim() !== "" && Number.isFinite(Number(value)));
