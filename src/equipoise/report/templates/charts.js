// Charts as SVG, drawn in the page's own ink. All text is set as text, never as markup.

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
  const slope = to === from ? 0 : (end - start) / (to - from);
  const scale = (value) => (slope === 0 ? (start + end) / 2 : start + slope * (value - from));
  scale.invert = (place) => (slope === 0 ? from : from + (place - start) / slope);
  return scale;
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

/** Many dots in one path, to be stroked with round caps: cheap however many there are. */
function dotsPath(points) {
  return points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");
}

/** A shade between the page's lightest and darkest, for a share from 0 to 1. */
function shade(share) {
  return `color-mix(in oklab, var(--ramp-high) ${Math.round(100 * share)}%, var(--ramp-low))`;
}

/** Quantile bands along an attribute: places (P), quantiles (P x 5), in the scales of a chart. */
function drawBands(into, places, quantiles) {
  const xs = places.map(into.x);
  const level = (k) => quantiles.map((row) => into.y(row[k]));
  into.layer.append(
    svg("path", { class: "band-outer", d: areaPath(xs, level(0), level(4)) }),
    svg("path", { class: "band-inner", d: areaPath(xs, level(1), level(3)) }),
    svg("path", { class: "median", d: linePath(xs.map((x, k) => [x, level(2)[k]])) }),
  );
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
