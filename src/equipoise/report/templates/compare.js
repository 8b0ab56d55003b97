// The page of a comparison: the fronts of all runs, drawn over each other.

const MARKERS = [circle, square, triangle, diamond];
const style = (run) => run % MARKERS.length;

const marker = (run, x, y, title = null) =>
  svg("g", { class: `style-${style(run)}` },
    svg("path", { class: "marker", d: MARKERS[style(run)](x, y, 4) }, title === null ? null : svg("title", {}, title)));

const key = (run) => svg("g", {},
  svg("line", { class: `front-line style-${style(run)}`, x1: 0, x2: 26, y1: 7, y2: 7 }), marker(run, 13, 7));

function drawFronts() {
  for (const box of document.querySelectorAll("[data-fronts]")) {
    const { metric, attribute, fronts } = data.panels[box.dataset.fronts];
    const width = Math.max(300, box.clientWidth);
    const all = fronts.flat();
    const most = Math.max(...all.map(({ unfairness }) => unfairness)) || 1;
    const drawn = chart({
      width, height: Math.round(Math.min(440, Math.max(300, width * 0.5))),
      x: [0, most * 1.03], y: extent(all.map(({ utility }) => utility), 0.06),
      xLabel: `${metric} by ${attribute} (0 is fair)`, yLabel: data.utility,
      label: `${data.utility} against ${metric} by ${attribute}, a line for each run; the numbers are in the tables below`,
    });
    const bottom = drawn.height - drawn.margin.bottom;
    for (const budget of data.budgets.filter((each) => each <= most)) {
      const x = drawn.x(budget);
      drawn.layer.append(svg("line", { class: "budget", x1: x, x2: x, y1: drawn.margin.top, y2: bottom }));
    }
    fronts.forEach((front, run) => {
      const places = front.map(({ unfairness, utility }) => [drawn.x(unfairness), drawn.y(utility)]);
      drawn.layer.append(
        svg("path", { class: `front-line style-${style(run)}`, d: stairPath(places, width - drawn.margin.right) }),
        ...front.map(({ unfairness, utility, origin }, k) =>
          marker(run, ...places[k], `${origin}: utility ${utility.toFixed(4)}, ${metric} ${attribute} ${unfairness.toFixed(4)}`)));
    });
    box.replaceChildren(drawn.root, legend(data.runs.map((name, run) => [key(run), name])));
  }
}

drawToWidth(drawFronts);
