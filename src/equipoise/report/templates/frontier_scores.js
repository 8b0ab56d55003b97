// How the chosen model's scores are distributed, and what a threshold makes of them.

/** Distribution by group or along the attribute, one figure for every attribute. */
function drawScores() {
  const box = byId("score-figures");
  if (!box) return;
  const model = currentModel();
  const kind = scoreWord === "score" ? "Scores" : "Predictions";
  const figures = data.attributes.map((attribute, number) => {
    const worst = model.scores[number].class;
    const what = worst === null ? "" : ` (probability of class ${worst}, the worst class)`;
    const how = attribute.kind === "continuous" ? "along" : "by";
    return html("figure", { class: "card" }, html("h3", {}, `${kind} ${how} ${attribute.name}${what}`));
  });
  // All are in place before any is measured: how wide one is depends on the others.
  box.replaceChildren(...figures);
  figures.forEach((figure, number) => {
    const attribute = data.attributes[number];
    const draw = attribute.kind === "continuous" ? bandsChart : groupsChart;
    figure.append(draw(attribute, model.scores[number], Math.max(260, figure.clientWidth - 40)));
  });
  placeThresholds();
}

function bandsChart(attribute, scores, width) {
  const drawn = chart({
    width, height: 300,
    x: extent(attribute.positions), y: extent(scores.bands.flat(), 0.06),
    xLabel: attribute.name, yLabel: scoreWord,
    label: `Median and middle 50 and 80 percent of the score along ${attribute.name}`,
  });
  drawBands(drawn, attribute.positions, scores.bands);
  drawn.root.dataset.axis = "y";
  drawn.root.scale = drawn;
  return drawn.root;
}

function groupsChart(attribute, scores, width) {
  const strip = 58;
  const groups = attribute.groups;
  const edges = [...Array(scores.bins + 1).keys()].map((j) => edgeAt(scores, j));
  const drawn = chart({
    width, height: groups.length * strip + 64, yTicks: false,
    margin: { left: 8, top: 8 },
    x: [edges[0], edges.at(-1)], y: [0, groups.length], xLabel: scoreWord,
    label: `Distribution of the score in each group of ${attribute.name}`,
  });
  groups.forEach((name, group) => {
    const base = drawn.y(groups.length - group - 1) - 12;
    drawn.layer.append(
      svg("path", { class: "bars", d: histogramPath(scores.counts[group], edges, drawn.x, base, strip - 30) }),
      ...quantileBar(scores.quantiles[group], drawn.x, base + 6),
      svg("text", { class: "title", x: drawn.width - drawn.margin.right, y: base - strip + 26, "text-anchor": "end" },
        `${shortened(name, width / 11)} (${rowsText(attribute.sizes[group])})`),
    );
  });
  drawn.root.dataset.axis = "x";
  drawn.root.scale = drawn;
  return drawn.root;
}

/** Outline of a histogram in few, wider bins; every group fills its own strip. */
function histogramPath(byClass, edges, x, base, height) {
  const bins = edges.length - 1;
  const width = Math.max(1, Math.ceil(bins / 60));
  const found = [];
  for (let start = 0; start < bins; start += width) {
    const end = Math.min(bins, start + width);
    let count = 0;
    for (const counts of byClass) for (let b = start; b < end; b += 1) count += counts[b];
    found.push([edges[start], edges[end], count / (edges[end] - edges[start])]);
  }
  const most = Math.max(...found.map(([, , density]) => density)) || 1;
  const top = (density) => base - (height * density) / most;
  const body = found.map(([low, high, density]) => `L${x(low).toFixed(1)} ${top(density).toFixed(1)}H${x(high).toFixed(1)}`);
  return `M${x(edges[0]).toFixed(1)} ${base}${body.join("")}V${base}Z`;
}

function quantileBar([q10, q25, q50, q75, q90], x, y) {
  return [
    svg("line", { class: "bar-outer", x1: x(q10), x2: x(q90), y1: y, y2: y }),
    svg("line", { class: "bar-inner", x1: x(q25), x2: x(q75), y1: y, y2: y }),
    svg("circle", { class: "bar-middle", cx: x(q50), cy: y, r: 4 }),
  ];
}

/** Draw the movable threshold into every figure of scores. */
function placeThresholds() {
  if (state.edge === null) return;
  const threshold = edgeAt(currentModel().scores[0], state.edge);
  for (const root of byId("score-figures").querySelectorAll("svg.chart[data-axis]")) {
    const { x, y, width, height, margin } = root.scale;
    root.querySelector(".threshold")?.remove();
    const across = root.dataset.axis === "y";
    const place = (across ? y : x)(threshold);
    const [low, high] = across ? [margin.top, height - margin.bottom] : [margin.left, width - margin.right];
    if (place < low || place > high) continue;
    root.append(
      across
        ? svg("line", { class: "threshold", x1: margin.left, x2: width - margin.right, y1: place, y2: place })
        : svg("line", { class: "threshold", x1: place, x2: place, y1: margin.top, y2: height - margin.bottom }),
    );
  }
}

/** Decisions of every group at the threshold: exact counts, from the bins above it. */
function decisionsOf(counts, edge) {
  const above = (bins) => bins.slice(edge).reduce((sum, count) => sum + count, 0);
  const all = (bins) => bins.reduce((sum, count) => sum + count, 0);
  const [negative, positive] = [counts[0], counts[1] ?? counts[0].map(() => 0)];
  return {
    rows: all(negative) + all(positive),
    decided: above(negative) + above(positive),
    truePositive: above(positive) / all(positive),
    falsePositive: above(negative) / all(negative),
  };
}

function showDecisions() {
  const box = byId("decision-tables");
  if (!box || state.edge === null) return;
  const scores = currentModel().scores[0];
  const threshold = edgeAt(scores, state.edge);
  const own = state.edge === scores.own;
  const words = fixed(threshold, thresholdDigits(scores));
  byId("threshold-value").textContent = `score > ${words}${own ? " (set on validation rows)" : ""}`;
  byId("threshold").setAttribute("aria-valuetext", `score above ${words}`);
  box.replaceChildren(...data.attributes.map((attribute, number) => decisionTable(attribute, currentModel().scores[number])));
  placeThresholds();
}

/** Decimals that tell one threshold from the next; scores may be crowded into a small range. */
const thresholdDigits = (scores) => Math.max(4, 1 - Math.floor(Math.log10(scores.step)));

/** Where the largest gap lies; between groups of few rows it says little. */
function gapText(attribute, found) {
  const rated = found
    .map(({ rows, decided }, group) => ({ name: attribute.groups[group], rows, rate: decided / rows }))
    .filter(({ rows }) => rows > 0)
    .sort((a, b) => a.rate - b.rate);
  const [low, high] = [rated[0], rated.at(-1)];
  const gap = high.rate - low.rate;
  const between = gap > 0 ? `, between ${high.name} and ${low.name}` : "";
  const few = gap > 0 && Math.min(high.rows, low.rows) < FEW_ROWS ? "; in so few rows chance alone makes gaps" : "";
  return `Largest gap between groups: ${(100 * gap).toFixed(1)} points${between}${few}.`;
}

function decisionTable(attribute, scores) {
  const [negative, positive] = data.labels;
  const found = scores.counts.map((counts) => decisionsOf(counts, state.edge));
  const where = data.target ? `${data.target} = ` : "";
  const headings = ["Rows", "Positive", "Rate", `Rate if ${where}${positive}`, `Rate if ${where}${negative}`];
  return html(
    "div", { class: "card" },
    html("h3", {}, `Decisions by ${attribute.name}`),
    html("p", { class: "small" }, gapText(attribute, found)),
    html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Decisions by ${attribute.name}` },
      html("table", { "data-attribute": attribute.name },
        html("thead", {}, html("tr", {}, html("th", { scope: "col" }, attribute.name),
          ...headings.map((text) => html("th", { scope: "col", class: "number" }, text)))),
        html("tbody", {}, ...found.map((each, group) => decisionRow(attribute.groups[group], each))))),
  );
}

function decisionRow(name, found) {
  const rate = found.decided / found.rows;
  const bar = html("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${(100 * rate).toFixed(1)}%`;
  return html("tr", {},
    html("th", { scope: "row" }, name, found.rows < FEW_ROWS ? html("span", { class: "small" }, " (few rows)") : null, html("span", { class: "bar-track", "aria-hidden": "true" }, bar)),
    ...[rowsText(found.rows), rowsText(found.decided), percent(rate), percent(found.truePositive), percent(found.falsePositive)]
      .map((text) => html("td", { class: "number" }, text)));
}
