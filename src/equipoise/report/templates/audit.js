// The page of an audit: distributions, intervals, finding numbers, counting scores from a movable edge.

const fixed = (value) => value.toPrecision(4);

function drawScores() {
  for (const box of document.querySelectorAll("[data-strips]")) {
    const { attribute, edges, groups } = data.histograms[box.dataset.strips];
    const bars = (counts) => counts.map((count, bin) => [edges[bin], edges[bin + 1], count]);
    box.replaceChildren(stripsChart({
      width: Math.max(260, box.clientWidth), x: [edges[0], edges.at(-1)], xLabel: "score",
      groups: groups.filter((each) => each.drawn).map((each) => ({ ...each, size: each.n, bars: bars(each.counts) })),
      label: `Distribution of the score in each group of ${attribute}; its quantiles are in the table below`,
    }));
  }
  for (const box of document.querySelectorAll("[data-bands]")) {
    const { attribute, positions, quantiles } = data.bands[box.dataset.bands];
    box.replaceChildren(bandsChart({
      width: Math.max(260, box.clientWidth), positions, bands: quantiles, xLabel: attribute, yLabel: "score",
      label: `Median and middle 50 and 80 percent of the score along ${attribute}; the numbers are in the table below`,
    }));
  }
  if (data.threshold !== null) document.querySelectorAll(".scores svg").forEach((root) => placeCut(root, data.threshold));
  if (state.bin !== null) countFrom(state.bin);
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

const state = { bin: null };
const sliders = [...document.querySelectorAll("input[data-counts]")];

/** Share of each group with a score of at least this edge, in all histograms. */
function countFrom(bin) {
  state.bin = bin;
  for (const slider of sliders) {
    const { edges, groups } = data.histograms[slider.dataset.counts];
    // The outermost bins also hold the scores beyond them.
    const place = Math.min(Math.max(bin, 1), edges.length - 2);
    const words = `score of at least ${fixed(edges[place])}`;
    const figure = slider.closest("figure");
    slider.value = place;
    slider.setAttribute("aria-valuetext", words);
    figure.querySelectorAll("output.edge").forEach((output) => { output.textContent = fixed(edges[place]); });
    figure.querySelectorAll("td.counted").forEach((cell, number) => {
      const { n, counts } = groups[number];
      const share = counts.slice(place).reduce((sum, count) => sum + count, 0) / n;
      cell.textContent = `${(100 * share).toFixed(1)} %`;
      cell.dataset.value = share;
    });
    placeCut(figure.querySelector("svg"), edges[place], "counted");
  }
}

for (const slider of sliders) {
  slider.max = data.histograms[slider.dataset.counts].edges.length - 2;
  slider.addEventListener("input", () => countFrom(Number(slider.value)));
}
if (sliders.length) {
  const edges = data.histograms[0].edges.slice(0, -1);
  const away = (edge) => Math.abs(edge - (data.threshold ?? edges[Math.round(edges.length / 2)]));
  state.bin = edges.reduce((best, edge, bin) => (away(edge) < away(edges[best]) ? bin : best), 0);
}

function findNumbers() {
  const notion = byId("notion").value;
  filterRows(byId("all"), { words: byId("find").value, keep: (row) => !notion || row.dataset.notion === notion, said: byId("shown") });
}
for (const id of ["find", "notion"]) byId(id).addEventListener("input", findNumbers);

findNumbers();
drawIntervals();
drawToWidth(drawScores);
