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
