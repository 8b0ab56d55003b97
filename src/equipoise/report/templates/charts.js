// Charts as SVG, drawn in the page's own ink, for all pages. All text is set as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

const SVG_SPACE = "http://www.w3.org/2000/svg";

/** An SVG element with attributes and children; text children become text nodes. */
function svg(tag, attributes = {}, ...children) {
  return withContent(document.createElementNS(SVG_SPACE, tag), attributes, children);
}

/** An HTML element with attributes and children; text children become text nodes. */
function html(tag, attributes = {}, ...children) {
  return withContent(document.createElement(tag), attributes, children);
}

function withContent(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A linear map from a domain to a range; a domain of one point maps to the middle. */
function linear([from, to], [start, end]) {
  return (value) => (to === from ? (start + end) / 2 : start + ((end - start) * (value - from)) / (to - from));
}

/** Round numbers between two ends, about as many as asked for. */
function ticks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9));
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    found.push(Number((k * step).toFixed(digits)));
  }
  return found;
}

/** Ends of finite numbers, with some room around them. */
function extent(values, room = 0) {
  const known = values.filter((value) => Number.isFinite(value));
  if (known.length === 0) return [0, 1];
  const low = Math.min(...known);
  const high = Math.max(...known);
  const pad = (high - low || Math.abs(high) || 1) * room;
  return [low - pad, high + pad];
}

/** How a tick is written: as many decimals as its neighbours need. */
function tickText(value, all) {
  const digits = Math.max(...all.map((each) => (String(each).split(".")[1] ?? "").length));
  const size = Math.abs(value);
  return size >= 10000 ? value.toLocaleString("en") : value.toFixed(Math.min(digits, 6));
}

/** Text of at most so many characters. */
function shortened(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.max(1, Math.floor(most) - 1))}…`;
}

/**
 * An empty chart with axes. Returns the root, the layer to draw in, and the scales.
 * options: width, height, x and y as domains, xLabel, yLabel, label (for screen readers),
 * margin, yTicks (false leaves the vertical axis out).
 */
function chart(options) {
  const { width, height, x, y, xLabel = "", yLabel = "", label = "", yTicks = true } = options;
  const margin = { top: 28, right: 14, bottom: 44, left: 54, ...options.margin };
  const toX = linear(x, [margin.left, width - margin.right]);
  const toY = linear(y, [height - margin.bottom, margin.top]);
  const root = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  const bottom = height - margin.bottom;
  if (yTicks) {
    const marks = ticks(...y, Math.max(4, Math.floor(height / 70)));
    for (const mark of marks) {
      root.append(
        svg("line", { class: "rule", x1: margin.left, x2: width - margin.right, y1: toY(mark), y2: toY(mark) }),
        svg("text", { x: margin.left - 8, y: toY(mark), dy: ".32em", "text-anchor": "end" }, tickText(mark, marks)),
      );
    }
  }
  const marks = ticks(...x, Math.max(4, Math.floor((width - margin.left) / 90)));
  for (const mark of marks) {
    root.append(
      svg("line", { class: "axis", x1: toX(mark), x2: toX(mark), y1: bottom, y2: bottom + 5 }),
      svg("text", { x: toX(mark), y: bottom + 19, "text-anchor": "middle" }, tickText(mark, marks)),
    );
  }
  const layer = svg("g");
  root.append(
    svg("line", { class: "axis", x1: margin.left, x2: width - margin.right, y1: bottom, y2: bottom }),
    svg("text", { class: "title", x: width - margin.right, y: height - 6, "text-anchor": "end" }, shortened(xLabel, width / 8)),
    svg("text", { class: "title", x: 0, y: 13 }, yLabel),
    layer,
  );
  return { root, layer, x: toX, y: toY, margin, width, height };
}

/** A path through points [x, y]; a missing number interrupts it. */
function linePath(points) {
  let text = "";
  let pen = false;
  for (const [x, y] of points) {
    const known = Number.isFinite(x) && Number.isFinite(y);
    if (known) text += `${pen ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
    pen = known;
  }
  return text;
}

/** A staircase through points: level until the next one, then straight up. */
function stairPath(points, lastX) {
  let text = "";
  points.forEach(([x, y], place) => {
    text += place === 0 ? `M${x.toFixed(2)} ${y.toFixed(2)}` : `H${x.toFixed(2)}V${y.toFixed(2)}`;
  });
  return points.length ? `${text}H${lastX.toFixed(2)}` : "";
}

/** The area between two lines over the same places. */
function areaPath(places, lower, upper) {
  const there = places.map((x, k) => `${x.toFixed(2)} ${upper[k].toFixed(2)}`);
  const back = places.map((x, k) => `${x.toFixed(2)} ${lower[k].toFixed(2)}`).reverse();
  return places.length ? `M${there.join("L")}L${back.join("L")}Z` : "";
}

/** Outlines of marks around a point, by which runs and families are told apart. */
const polygon = (...corners) => `M${corners.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}Z`;
const diamond = (x, y, r) => polygon([x, y - r], [x + r, y], [x, y + r], [x - r, y]);
const triangle = (x, y, r) => polygon([x, y - r], [x + r, y + 0.8 * r], [x - r, y + 0.8 * r]);
const square = (x, y, r) => polygon(...[[-1, -1], [1, -1], [1, 1], [-1, 1]].map(([a, b]) => [x + 0.85 * a * r, y + 0.85 * b * r]));
const circle = (x, y, r) => `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`;

/**
 * Distributions one above the other. groups: name, size, bars as [low, high, density], five
 * quantiles. Every group fills its own strip; bars beneath it are the middle 80 % and 50 %.
 */
function stripsChart({ width, groups, x, xLabel, label }) {
  const strip = 58;
  const drawn = chart({
    width, height: groups.length * strip + 64, yTicks: false, margin: { left: 8, top: 8 },
    x, y: [0, groups.length], xLabel, label,
  });
  const inside = (value) => drawn.x(Math.min(x[1], Math.max(x[0], value)));
  groups.forEach(({ name, size, bars, quantiles }, place) => {
    const base = drawn.y(groups.length - place - 1) - 12;
    const most = Math.max(...bars.map(([, , density]) => density)) || 1;
    const top = (density) => (base - ((strip - 30) * density) / most).toFixed(1);
    const body = bars.map(([low, high, density]) => `L${drawn.x(low).toFixed(1)} ${top(density)}H${drawn.x(high).toFixed(1)}`);
    const [q10, q25, q50, q75, q90] = quantiles.map(inside);
    drawn.layer.append(
      svg("path", { class: "bars", d: `M${drawn.x(bars[0][0]).toFixed(1)} ${base}${body.join("")}V${base}Z` }),
      svg("line", { class: "bar-outer", x1: q10, x2: q90, y1: base + 6, y2: base + 6 }),
      svg("line", { class: "bar-inner", x1: q25, x2: q75, y1: base + 6, y2: base + 6 }),
      svg("circle", { class: "bar-middle", cx: q50, cy: base + 6, r: 4 }),
      svg("text", { class: "title", x: width - drawn.margin.right, y: base - strip + 26, "text-anchor": "end" },
        `${shortened(name, width / 11)} (${size.toLocaleString("en", { maximumFractionDigits: 1 })})`),
    );
  });
  drawn.root.scale = { ...drawn, axis: "x" };
  return drawn.root;
}

/** Quantile bands along an attribute: positions (P), bands (P x 5). */
function bandsChart({ width, positions, bands, xLabel, yLabel, label }) {
  const drawn = chart({ width, height: 300, x: extent(positions), y: extent(bands.flat(), 0.06), xLabel, yLabel, label });
  const xs = positions.map(drawn.x);
  const level = (k) => bands.map((row) => drawn.y(row[k]));
  drawn.layer.append(
    svg("path", { class: "band-outer", d: areaPath(xs, level(0), level(4)) }),
    svg("path", { class: "band-inner", d: areaPath(xs, level(1), level(3)) }),
    svg("path", { class: "median", d: linePath(xs.map((x, k) => [x, level(2)[k]])) }),
  );
  drawn.root.scale = { ...drawn, axis: "y" };
  return drawn.root;
}

/** Draw a line across a chart of scores where the score is this, or move it there. */
function placeCut(root, value, kind = "threshold") {
  const { axis, x, y, width, height, margin } = root.scale;
  root.querySelector(`.${kind}`)?.remove();
  const place = (axis === "y" ? y : x)(value);
  const [low, high] = axis === "y" ? [margin.top, height - margin.bottom] : [margin.left, width - margin.right];
  if (!(place >= low && place <= high)) return;
  root.append(
    axis === "y"
      ? svg("line", { class: kind, x1: margin.left, x2: width - margin.right, y1: place, y2: place })
      : svg("line", { class: kind, x1: place, x2: place, y1: margin.top, y2: height - margin.bottom }),
  );
}

/** Intervals in cells. Those of one axis share their ends; lengths are in percent of the cell. */
function drawIntervals() {
  const all = [...document.querySelectorAll("[data-axis]")];
  for (const axis of new Set(all.map((cell) => cell.dataset.axis))) {
    const cells = all.filter((cell) => cell.dataset.axis === axis);
    const numbers = cells.flatMap(({ dataset }) => [dataset.low, dataset.value, dataset.high, dataset.certificate, dataset.limit])
      .filter((text) => text !== undefined).map(Number);
    const { rate, zero } = cells[0].dataset;
    const ends = rate !== undefined ? [0, 1] : extent(zero !== undefined ? [0, ...numbers] : numbers);
    for (const cell of cells) drawInterval(cell, ends);
  }
}

function drawInterval(cell, ends) {
  const share = (value) => linear(ends, [0, 100])(Number(value));
  const place = (value) => `${share(value)}%`;
  const { low, high, value, certificate, limit } = cell.dataset;
  cell.append(svg("svg", { class: "interval", "aria-hidden": "true" },
    svg("line", { class: "track", x1: 0, x2: "100%", y1: 7, y2: 7 }),
    low === undefined ? null : svg("rect", { class: "range", x: place(low), width: `${share(high) - share(low)}%`, y: 4.5, height: 5 }),
    limit === undefined ? null : svg("line", { class: "limit", x1: place(limit), x2: place(limit), y1: 0, y2: 14 }),
    certificate === undefined ? null : svg("line", { class: "certificate", x1: place(certificate), x2: place(certificate), y1: 0, y2: 14 }),
    value === undefined ? null : svg("circle", { class: "value", cx: place(value), cy: 7, r: 4.5 })));
}

/** A list that explains marks: pairs of an SVG mark of 26 x 14 and words. */
function legend(entries) {
  return html(
    "ul",
    { class: "legend" },
    ...entries.map(([mark, words]) =>
      html("li", {}, svg("svg", { width: 26, height: 14, class: "chart", style: "width:26px", "aria-hidden": "true" }, mark), words),
    ),
  );
}

/** The numbers of a chart as a table, folded away. */
function numbersTable(words, headings, rows) {
  const cells = (row) => row.map((value, k) => html(k ? "td" : "th", k ? { class: "number" } : { scope: "row" }, String(value)));
  return html("details", {}, html("summary", {}, words),
    html("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": words },
      html("table", {},
        html("thead", {}, html("tr", {}, ...headings.map((text, k) => html("th", { scope: "col", class: k ? "number" : null }, text)))),
        html("tbody", {}, ...rows.map((row) => html("tr", {}, ...cells(row)))))));
}

/** Draw now, and again whenever the page has another width. */
function drawToWidth(draw) {
  let width = document.documentElement.clientWidth;
  window.addEventListener("resize", () => {
    if (width === document.documentElement.clientWidth) return;
    width = document.documentElement.clientWidth;
    requestAnimationFrame(draw);
  });
  draw();
}

document.documentElement.classList.remove("no-js");
// Without a script nothing is folded; on paper nothing can be unfolded.
document.querySelectorAll("details[open]").forEach((each) => { each.open = false; });
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
