// A config.yaml as dotted keys, for putting two of them side by side.

const NOT_COMPARED = "mixer.about."; // texts of the legend

/** The scalars of a config as this project writes it, Map "mixer.d_model" -> "64"; a list is one text. */
function flattened(text) {
  const found = new Map(), path = [];
  let last = null, list = null; // the key that was read last; the key whose list is being read
  for (const line of text.split("\n")) {
    const indent = line.search(/\S/), rest = line.trim();
    if (!rest) continue;
    if (rest.startsWith("-")) list ??= last;
    if (list && (indent > list.indent || rest.startsWith("-"))) {
      found.set(list.key, `${found.get(list.key) ?? ""} ${rest}`.trim());
      continue;
    }
    list = null;
    const [, key, value] = /^([^:]+):\s*(.*)$/.exec(rest) ?? [];
    if (key === undefined) {
      if (last) found.set(last.key, `${found.get(last.key) ?? ""} ${rest}`); // a long text goes on
      continue;
    }
    while (path.length && path.at(-1).indent >= indent) path.pop();
    path.push({ indent, key });
    last = { indent, key: path.map((each) => each.key).join(".") };
    if (value) found.set(last.key, value);
  }
  return new Map([...found].filter(([key]) => !key.startsWith(NOT_COMPARED)).map(shortened));
}

/** Of the layers their classes alone: the settings of the mixer stand under its own keys. */
function shortened([key, value]) {
  const classes = key === "model.layers" ? value.match(/_target_: \S+/g) : null;
  return [key, classes ? classes.map((each) => each.split(".").at(-1)).join(", ") : value];
}
