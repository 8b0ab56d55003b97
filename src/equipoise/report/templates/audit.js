// The page of an audit: finding numbers, and counting scores from a movable edge.
const audit = JSON.parse(document.getElementById("data").textContent);

const find = document.getElementById("find");
const notion = document.getElementById("notion");
const shown = document.getElementById("shown");
const numbers = [...document.querySelectorAll("#all tbody tr")];

function filterNumbers() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const row of numbers) {
    const text = row.textContent.toLowerCase();
    const wanted = (!notion.value || row.dataset.notion === notion.value) && words.every((word) => text.includes(word));
    row.hidden = !wanted;
    count += wanted;
  }
  shown.textContent = `${count} of ${numbers.length} numbers`;
}
find.addEventListener("input", filterNumbers);
notion.addEventListener("input", filterNumbers);
filterNumbers();

const figures = [...document.querySelectorAll("[data-histogram]")].map((figure) => ({
  figure,
  slider: figure.querySelector("input[type=range]"),
  ...audit.histograms.find((each) => each.attribute === figure.dataset.histogram),
}));

function countFrom(place) {
  for (const { figure, slider, edges, groups } of figures) {
    // Beyond its first and last edge a histogram does not tell scores apart.
    const bin = Math.min(Math.max(place, 1), edges.length - 1);
    slider.value = bin;
    slider.setAttribute("aria-valuetext", `score of at least ${edges[bin].toPrecision(4)}`);
    figure.querySelector("output.edge").textContent = edges[bin].toPrecision(4);
    figure.querySelectorAll(".cut-line.chosen").forEach((line) => {
      line.hidden = false;
      line.style.left = `${(100 * bin) / edges.length}%`;
    });
    figure.querySelectorAll(".above output").forEach((output, number) => {
      const { n, counts } = groups[number];
      const above = counts.slice(bin).reduce((sum, count) => sum + count, 0);
      output.textContent = `${((100 * above) / n).toFixed(1)} %`;
      output.dataset.value = above / n;
    });
  }
}

for (const { slider, edges } of figures) {
  slider.max = edges.length;
  slider.addEventListener("input", () => countFrom(Number(slider.value)));
}
if (figures.length) {
  const { edges } = figures[0];
  const away = (edge) => Math.abs(edge - (audit.threshold ?? edges[Math.round(edges.length / 2)]));
  countFrom(edges.reduce((best, edge, bin) => (away(edge) < away(edges[best]) ? bin : best), 0));
}
