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
    figure.append(...scoresChart(data.attributes[number], model.scores[number], Math.max(260, figure.clientWidth - 40)));
  });
  placeThresholds();
}

/** Scores by group, or along a continuous attribute, and their quantiles as a table. */
function scoresChart(attribute, scores, width) {
  const { name, groups, sizes, positions } = attribute;
  const heads = ["10 %", "25 %", "median", "75 %", "90 %"];
  const numbers = (quantiles) => quantiles.map((value) => Number(value.toPrecision(4)));
  if (attribute.kind === "continuous") {
    const label = `Median and middle 50 and 80 percent of the ${scoreWord} along ${name}`;
    const rows = positions.map((position, k) => [Number(position.toPrecision(6)), ...numbers(scores.bands[k])]);
    return [
      bandsChart({ width, positions, bands: scores.bands, xLabel: name, yLabel: scoreWord, label }),
      numbersTable(`Quantiles along ${name}`, [name, ...heads], rows),
    ];
  }
  const edges = [...Array(scores.bins + 1).keys()].map((j) => edgeAt(scores, j));
  return [
    stripsChart({
      width, x: [edges[0], edges.at(-1)], xLabel: scoreWord, label: `Distribution of the ${scoreWord} in each group of ${name}`,
      groups: groups.map((group, k) => ({ name: group, size: sizes[k], bars: barsOf(scores.counts[k], edges), quantiles: scores.quantiles[k] })),
    }),
    numbersTable(`Quantiles by ${name}`, [name, ...heads], groups.map((group, k) => [group, ...numbers(scores.quantiles[k])])),
  ];
}

/** A histogram in few, wider bins: low, high, density. */
function barsOf(byClass, edges) {
  const bins = edges.length - 1;
  const width = Math.max(1, Math.ceil(bins / 60));
  const found = [];
  for (let start = 0; start < bins; start += width) {
    const end = Math.min(bins, start + width);
    let count = 0;
    for (const counts of byClass) for (let b = start; b < end; b += 1) count += counts[b];
    found.push([edges[start], edges[end], count / (edges[end] - edges[start])]);
  }
  return found;
}

/** Draw the movable threshold into every figure of scores. */
function placeThresholds() {
  if (state.edge === null) return;
  const threshold = edgeAt(currentModel().scores[0], state.edge);
  for (const root of byId("score-figures").querySelectorAll("svg.chart")) placeCut(root, threshold);
}

/** Decisions of every group at the threshold: exact counts, from the bins above it. */
function decisionsOf(counts, edge) {
  const above = (bins) => bins.slice(edge).reduce((sum, count) => sum + count, 0);
  const all = (bins) => bins.reduce((sum, count) => sum + count, 0);
  const [negative, positive] = [counts[0], counts[1] ?? counts[0].map(() => 0)];
  return {
    rows: all(negative) + all(positive),
    decided: above(negative) + above(positive),
    positive: { share: above(positive) / all(positive), of: all(positive) },
    negative: { share: above(negative) / all(negative), of: all(negative) },
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
  const few = gap > 0 && Math.min(high.rows, low.rows) < FEW_ROWS ? "; in so few rows, gaps arise by chance" : "";
  return `Largest gap between groups: ${(100 * gap).toFixed(1)} points${between}${few}.`;
}

function decisionTable(attribute, scores) {
  const [negative, positive] = data.labels;
  const found = scores.counts.map((counts) => decisionsOf(counts, state.edge));
  const where = data.target ? `${data.target} = ` : "";
  const headings = ["Rows", capital(data.verb), "Share", `Share if ${where}${positive}`, `Share if ${where}${negative}`];
  return html(
    "div", { class: "card" },
    html("h3", {}, `Decisions by ${attribute.name}`),
    html("p", { class: "small" }, gapText(attribute, found)),
    html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table of decisions by ${attribute.name}` },
      html("table", { "data-attribute": attribute.name },
        html("thead", {}, html("tr", {}, html("th", { scope: "col" }, attribute.name),
          ...headings.map((text) => html("th", { scope: "col", class: "number" }, text)))),
        html("tbody", {}, ...found.map((each, group) => decisionRow(attribute.groups[group], each))))),
  );
}

/** A rate among the rows of one outcome, and their number. */
const rateCell = ({ share, of }) => html("td", { class: "number" }, percent(share),
  html("small", {}, `of ${rowsText(of)}${of < FEW_ROWS ? ", few rows" : ""}`));

function decisionRow(name, found) {
  const rate = found.decided / found.rows;
  const bar = html("span", { class: "bar", "aria-hidden": "true" });
  bar.style.width = `${(100 * rate).toFixed(1)}%`;
  return html("tr", {},
    html("th", { scope: "row" }, name,
      found.rows < FEW_ROWS ? html("span", { class: "small" }, " (few rows)") : null,
      html("span", { class: "bar-track", "aria-hidden": "true" }, bar)),
    ...[rowsText(found.rows), rowsText(found.decided), percent(rate)].map((text) => html("td", { class: "number" }, text)),
    rateCell(found.positive), rateCell(found.negative));
}
