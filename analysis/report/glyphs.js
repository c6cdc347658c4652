// The markers of the picture as small SVG shapes, for the list of mixers, which is its legend.

const SHAPES = { // corners, and by how much of a turn the first one stands right of the top
  "triangle-up": [3, 0], "triangle-right": [3, 0.25], "triangle-down": [3, 0.5], "triangle-left": [3, 0.75],
  square: [4, 0.125], diamond: [4, 0], "diamond-tall": [4, 0], pentagon: [5, 0], hexagon: [6, 0],
  hexagon2: [6, 1 / 12], octagon: [8, 1 / 16],
};
const ROUND = { star: [5, 0.45], cross: [4, 0.45], x: [4, 0.45] }; // points, and how deep it is between them

function corners(symbol) {
  const [points, deep] = ROUND[symbol] ?? [SHAPES[symbol][0], 0];
  const turn = ROUND[symbol] ? (symbol === "x" ? 0.125 : 0) : SHAPES[symbol][1];
  const steps = deep ? 2 * points : points;
  return Array.from({ length: steps }, (_, i) => {
    const angle = 2 * Math.PI * (i / steps + turn), radius = deep && i % 2 ? 5.4 * deep : 5.4;
    const narrow = symbol === "diamond-tall" ? 0.65 : 1;
    return `${(7 + narrow * radius * Math.sin(angle)).toFixed(1)},${(7 - radius * Math.cos(angle)).toFixed(1)}`;
  }).join(" ");
}

function glyph(series) {
  const space = "http://www.w3.org/2000/svg";
  const image = document.createElementNS(space, "svg");
  const round = series.symbol === "circle";
  const shape = document.createElementNS(space, round ? "circle" : "polygon");
  const about = round ? { cx: 7, cy: 7, r: 4.6 } : { points: corners(series.symbol) };
  for (const [name, value] of Object.entries({ ...about, fill: shade(series.colour) })) shape.setAttribute(name, value);
  for (const [name, value] of Object.entries({ width: 14, height: 14, "aria-hidden": true })) image.setAttribute(name, value);
  image.append(shape);
  return image;
}
