// What is wrong with how a part of the page stands on the screen, in words; nothing is []
(part) => {
  const wide = document.documentElement.clientWidth, said = [];
  const box = (node) => node.getBoundingClientRect();
  const words = (node) => `${node.textContent.trim().slice(0, 40)} (${node.tagName})`;
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && box(node).width > 0;
  const scrolls = (node) => node && node !== document.body && (/auto|scroll/.test(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
  const nodes = [part, ...part.querySelectorAll("*")].filter(seen);
  if (part.matches("header") && document.documentElement.scrollWidth > wide) said.push(`the page is ${document.documentElement.scrollWidth} wide`);
  for (const node of nodes)
    if ((box(node).right > wide + 0.5 || box(node).left < -0.5) && !scrolls(node) && !node.closest("svg defs, .main-svg > :not(g)"))
      if (!node.closest(".main-svg") || node.tagName === "text") said.push(`off the screen: ${words(node)}`);
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  for (const plot of nodes.filter((node) => node.classList.contains("js-plotly-plot"))) {
    const texts = [...plot.querySelectorAll(".xtick text, .ytick text, .xtitle, .ytitle, .gtitle, .annotation-text")].filter(seen);
    texts.forEach((a, i) => texts.slice(i + 1).forEach((b) => over(box(a), box(b)) && said.push(`${words(a)} on ${words(b)}`)));
    const frame = box(plot);
    for (const each of texts)
      if (box(each).left < frame.left - 1 || box(each).right > frame.right + 1 || box(each).bottom > frame.bottom + 1)
        said.push(`cut off: ${words(each)}`);
  }
  const paint = (text) => text.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
  const paper = (node) => {
    const colour = paint(getComputedStyle(node).backgroundColor);
    return colour[3] !== 0 || !node.parentElement ? colour.slice(0, 3) : paper(node.parentElement);
  };
  for (const node of nodes)
    if ([...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()) && !node.closest("svg"))
      if (contrast(paint(getComputedStyle(node).color).slice(0, 3), paper(node)) < 4.5) said.push(`pale: ${words(node)}`);
  return [...new Set(said)];
}
