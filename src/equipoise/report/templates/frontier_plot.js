// The picture of the trade-off: every snapshot, the front, and the models that can be chosen.

/** Ends of the axes: the front and what is drawn of these models, wherever the limit is. */
function plotRanges(view, models) {
  const places = [...view.snapshots, ...models.map(({ snapshot }) => snapshot)].map((number) => pointOf.get(number));
  const rows = models.map((model) => worstIn(view, model));
  const ends = ({ test, low, high }) => [test, low, high];
  const across = [...places.map((place) => unfairnessAt(view, place)), ...rows.flatMap(ends), ...rows.map(({ chance }) => chance)];
  const up = [...places.map((place) => data.points.utility[place]), ...models.flatMap(({ rows: [utility] }) => ends(utility))];
  const known = across.filter((each) => each !== null);
  const [low, high] = extent(known, 0.06);
  const most = data.gaps.includes(view.metric) ? Math.min(high, 1) : high;
  // The axis begins at 0, which is fair, unless most of it would then be empty.
  return { x: [low > 0.4 * most ? low : 0, most || 1], y: extent(up.filter((each) => each !== null), 0.1) };
}

/** Points inside the picture, as [place, x, y] in its units. */
function visiblePoints(view, { x, y }) {
  const found = [];
  data.points.number.forEach((_, place) => {
    const unfairness = unfairnessAt(view, place);
    const utility = data.points.utility[place];
    const inside = unfairness !== null && utility !== null && unfairness >= x[0] && unfairness <= x[1] && utility >= y[0] && utility <= y[1];
    if (inside) found.push([place, unfairness, utility]);
  });
  return found;
}

/** The outline of what can be chosen, by family: a diamond, a triangle, a square. */
const outline = (entry) => [diamond, triangle, square][mixed ? familyPlace(entry) % 3 : 0];

function star(x, y, r) {
  const corner = (k) => {
    const reach = k % 2 ? r * 0.45 : r;
    const angle = (Math.PI * k) / 5;
    return [x + reach * Math.sin(angle), y - reach * Math.cos(angle)];
  };
  return polygon(...[...Array(10).keys()].map(corner));
}

const strengths = [...new Set(data.entries.map((entry) => entry.strength))].sort((a, b) => a - b);
/** A shade between the page's lightest and darkest, the darker the stronger. */
function shadeOfStrength(strength) {
  const share = strengths.length < 2 ? 0.5 : strengths.indexOf(strength) / (strengths.length - 1);
  return `color-mix(in oklab, var(--ramp-high) ${Math.round(100 * share)}%, var(--ramp-low))`;
}

function drawPlot() {
  const box = byId("plot");
  const hadFocus = box.contains(document.activeElement);
  const view = currentView();
  const width = Math.max(300, box.clientWidth);
  const height = Math.round(Math.min(520, Math.max(340, width * 0.56)));
  // All that can be chosen are in it, so that the axes stay as they are while the slider moves.
  const ranges = plotRanges(view, [...view.shown.map((each) => data.models[each.model]), currentModel()]);
  const drawn = chart({
    width, height, ...ranges,
    xLabel: `${width < 520 ? "" : "unfairness: "}${viewText(view)} (0 is fair)`,
    yLabel: `usefulness: ${data.utility}`,
    label: "Usefulness against unfairness of every snapshot, on validation rows",
  });
  drawn.root.setAttribute("role", "group");
  const points = visiblePoints(view, ranges);
  drawLimit(drawn, ranges, state.limit);
  drawChance(drawn, worstIn(view, currentModel()));
  for (const strength of strengths) {
    const own = points.filter(([place]) => entryOf(place).strength === strength);
    const places = (family) => own
      .filter(([place]) => familyPlace(entryOf(place)) === family)
      .map(([, x, y]) => [drawn.x(x), drawn.y(y)]);
    data.families.forEach((_, family) => drawn.layer.append(marksOf(strength, family, places(family))));
  }
  const front = view.snapshots.map((number, step) => [drawn.x(view.unfairness[step]), drawn.y(data.points.utility[pointOf.get(number)])]);
  drawn.layer.append(svg("path", { class: "front", d: stairPath(front, drawn.x(ranges.x[1])) }));
  drawn.layer.append(drawSteps(view, drawn));
  drawTested(drawn, view, currentModel());
  drawMarks(view, drawn, ranges);
  box.querySelector("svg")?.remove();
  box.prepend(drawn.root);
  watchPointer(drawn, points, view);
  if (hadFocus) box.querySelector("[aria-checked=true]")?.focus({ preventScroll: true });
  const outside = data.points.number.length - points.length;
  const thinnedPoints = data.points.number.length < data.points.of;
  byId("plot-outside").textContent =
    (outside ? `Snapshots outside the chart, or with an undefined value: ${outside}. ` : "") +
    (thinnedPoints ? `Of ${data.points.of} snapshots, the chart shows those that can be chosen and an even sample of the others.` : "");
}

/** Snapshots of one strength and family as one path in its shade: dots for the first family, shapes for the others. */
function marksOf(strength, family, places, size = 4) {
  const color = shadeOfStrength(strength);
  const dot = (x, y) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`;
  const shape = family === 0 ? dot : [diamond, triangle, square][family % 3];
  const d = places.map(([x, y]) => shape(x, y, size)).join("");
  return svg("path", family === 0 ? { class: "dots", style: `stroke:${color}`, d } : { class: "shapes", style: `fill:${color}`, d });
}

/** The limit; where it is outside the chart, an arrow tells on which side. */
function drawLimit(drawn, ranges, limit) {
  if (limit === null) return;
  const [left, right] = [drawn.margin.left, drawn.width - drawn.margin.right];
  const [top, bottom] = [drawn.margin.top, drawn.height - drawn.margin.bottom];
  const x = Math.max(left, Math.min(drawn.x(limit), right));
  const nearEnd = right - x < 110;
  const words = limit > ranges.x[1] ? `limit ${limit} →` : limit < ranges.x[0] ? `← limit ${limit}` : `limit ${limit}`;
  drawn.layer.append(
    svg("rect", { class: "beyond", x, y: top, width: right - x, height: bottom - top }),
    x === drawn.x(limit) ? svg("line", { class: "limit", x1: x, x2: x, y1: top, y2: bottom }) : "",
    svg("text", { x: nearEnd ? x - 6 : x + 6, y: top + 14, "text-anchor": nearEnd ? "end" : "start" }, words),
  );
}

/** What a fair score reaches by chance on the test rows. */
function drawChance(drawn, { chance }) {
  if (chance === null) return;
  const x = drawn.x(chance);
  if (x < drawn.margin.left) return;
  drawn.layer.append(svg("line", { class: "chance", x1: x, x2: x, y1: drawn.margin.top, y2: drawn.height - drawn.margin.bottom }));
}

/** The chance level in the legend, where a model has one. */
const chanceKey = (models, view, words) => (models.some((model) => rowsIn(view, model).some(({ chance }) => chance !== null))
  ? [[svg("line", { class: "chance", x1: 13, x2: 13, y1: 0, y2: 14 }), words]]
  : []);

/** A model on the test rows: its values, and the intervals of both. */
function drawTested(drawn, view, model) {
  const [{ test, low, high }, utility] = [worstIn(view, model), model.rows[0]];
  if (test === null || utility.test === null) return;
  const [x, y] = [drawn.x(test), drawn.y(utility.test)];
  const line = (x1, x2, y1, y2) => svg("line", { class: "tested", x1, x2, y1, y2 });
  drawn.layer.append(svg("g", { class: "on-test" },
    low === null ? "" : line(drawn.x(low), drawn.x(high), y, y),
    utility.low === null ? "" : line(x, x, drawn.y(utility.low), drawn.y(utility.high)),
    svg("path", { class: "tested-mark", d: square(x, y, 4.5) })));
}

/** The front, the selected model and its limit, small, for the first screen. */
function drawOverview() {
  const box = byId("overview");
  const view = data.views[data.selected.view];
  const model = data.models[data.selected.model];
  const width = Math.max(260, box.clientWidth);
  const ranges = plotRanges(view, [model]);
  const point = pointOf.get(model.snapshot);
  const [unfairness, utility] = [unfairnessAt(view, point), data.points.utility[point]];
  const shape = outline(entryOf(point));
  const drawn = chart({
    width, height: width < 420 ? 140 : 210, ...ranges, margin: { top: 22, bottom: 40 },
    xLabel: `${viewText(view)} (0 is fair)`, yLabel: data.utility,
    label: `The front of this run. The selected model has ${data.utility} ${fixed(utility, 3)} and ${viewText(view)} ${fixed(unfairness, 3)} on validation rows.`,
  });
  const front = view.snapshots.map((number, step) => [drawn.x(view.unfairness[step]), drawn.y(data.points.utility[pointOf.get(number)])]);
  drawLimit(drawn, ranges, data.selected.limit);
  drawChance(drawn, worstIn(view, model));
  drawn.layer.append(svg("path", { class: "front", d: stairPath(front, drawn.x(ranges.x[1])) }));
  drawTested(drawn, view, model);
  if (unfairness !== null) drawn.layer.append(
    svg("circle", { class: "chosen-ring", cx: drawn.x(unfairness), cy: drawn.y(utility), r: 9 }),
    svg("path", { class: "chosen-mark", d: shape(drawn.x(unfairness), drawn.y(utility), 6) }));
  box.replaceChildren(drawn.root, legend([
    [svg("path", { class: "chosen-mark", d: shape(13, 7, 6.5) }), "selected, on validation rows"],
    ...(tested ? [[testedKey(), `on test rows, with ${levelText} intervals`]] : []),
    ...chanceKey([model], view, "by chance"),
  ]));
}

const testedKey = () => svg("g", {},
  svg("line", { class: "tested", x1: 1, x2: 25, y1: 7, y2: 7 }), svg("path", { class: "tested-mark", d: square(13, 7, 4.5) }));

/** The models that can be chosen, as one group of radio buttons: one tab stop, then arrow keys. */
function drawSteps(view, drawn) {
  const group = svg("g", { role: "radiogroup", "aria-label": `Models that can be chosen: ${viewText(view)}` });
  const chosen = placeOfModel(view);
  view.shown.forEach((each, place) => {
    const point = pointOf.get(view.snapshots[each.step]);
    const unfairness = view.unfairness[each.step];
    const [x, y] = [drawn.x(unfairness), drawn.y(data.points.utility[point])];
    const step = svg("path", {
      class: "step", d: outline(entryOf(point))(x, y, 6), role: "radio",
      tabindex: place === Math.max(chosen, 0) ? 0 : -1,
      "aria-checked": String(place === chosen),
      "aria-label": `${viewText(view)} ${fixed(unfairness)}, ${data.utility} ${fixed(data.points.utility[point])}, ${whoText(point)}`,
    });
    step.addEventListener("click", () => chooseStep(place));
    step.addEventListener("focus", () => showTip(point, x, y, drawn));
    step.addEventListener("blur", hideTip);
    step.addEventListener("keydown", (event) => moveAlong(event, place, view.shown.length));
    group.append(step);
  });
  return group;
}

function moveAlong(event, place, count) {
  const moves = { ArrowRight: place + 1, ArrowUp: place + 1, ArrowLeft: place - 1, ArrowDown: place - 1, Home: 0, End: count - 1 };
  if (event.key === " " || event.key === "Enter") moves[event.key] = place;
  if (!(event.key in moves)) return;
  event.preventDefault();
  chooseStep(Math.min(count - 1, Math.max(0, moves[event.key])));
}

/** The chosen model and the one that the run selected: marked by shape and by word. */
function drawMarks(view, drawn, ranges) {
  const mark = (snapshot, words, draw, above) => {
    const point = pointOf.get(snapshot);
    const unfairness = unfairnessAt(view, point);
    const utility = data.points.utility[point];
    const inside = unfairness !== null && unfairness >= ranges.x[0] && unfairness <= ranges.x[1] && utility >= ranges.y[0] && utility <= ranges.y[1];
    if (!inside) return;
    const [x, y] = [drawn.x(unfairness), drawn.y(utility)];
    // Above and to the left of a front there is nothing to be hidden.
    const left = above ? x > drawn.margin.left + 150 : x > drawn.width - 160;
    const textPlace = { x: left ? x - 14 : x + 14, y: y + (above && left ? -12 : 24), "text-anchor": left ? "end" : "start" };
    drawn.layer.append(draw(x, y), svg("text", { class: "title", ...textPlace }, words));
  };
  if (!isSelectedModel()) {
    const selected = data.models[data.selected.model].snapshot;
    mark(selected, "selected by the run", (x, y) => svg("path", { class: "selected-mark", d: star(x, y, 11) }), false);
  }
  const words = isSelectedModel() ? "selected by the run" : "your choice";
  const shape = outline(entryOf(pointOf.get(currentModel().snapshot)));
  mark(currentModel().snapshot, words, (x, y) => svg("g", {},
    svg("circle", { class: "chosen-ring", cx: x, cy: y, r: 11 }),
    svg("path", { class: "chosen-mark", d: shape(x, y, 7) })), true);
}

/** What is nearest to the pointer is described; a click on what can be chosen chooses it. */
function watchPointer(drawn, points, view) {
  const nearest = (event) => {
    const bounds = drawn.root.getBoundingClientRect();
    const factor = drawn.width / bounds.width;
    const [px, py] = [(event.clientX - bounds.left) * factor, (event.clientY - bounds.top) * factor];
    let found = null;
    let least = 16;
    for (const [place, u, v] of points) {
      const distance = Math.hypot(drawn.x(u) - px, drawn.y(v) - py);
      if (distance < least) [found, least] = [[place, u, v], distance];
    }
    return found;
  };
  drawn.root.addEventListener("pointermove", (event) => {
    const found = nearest(event);
    if (found) showTip(found[0], drawn.x(found[1]), drawn.y(found[2]), drawn);
    else hideTip();
  });
  drawn.root.addEventListener("pointerleave", hideTip);
  drawn.root.addEventListener("click", (event) => {
    const found = nearest(event);
    if (!found || event.target.getAttribute("role") === "radio") return;
    const number = data.points.number[found[0]];
    const place = view.shown.findIndex((each) => view.snapshots[each.step] === number);
    if (place >= 0) chooseStep(place);
  });
}

function showTip(point, x, y, drawn) {
  const tip = byId("tip");
  const rows = data.measures.map((measure, column) => [measureText(measure), data.points.unfairness[column][point]]);
  tip.replaceChildren(
    html("strong", {}, `Snapshot ${data.points.number[point]}`),
    html("div", {}, whoText(point)),
    html("table", {}, html("tbody", {},
      ...[[data.utility, data.points.utility[point]], ...rows].map(([name, value]) =>
        html("tr", {}, html("th", { scope: "row" }, name), html("td", { class: "number" }, fixed(value)))))),
    html("div", { class: "small" }, "on validation rows"),
  );
  tip.hidden = false;
  const scale = drawn.root.getBoundingClientRect().width / drawn.width;
  const room = byId("plot").clientWidth - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(room, x * scale + (x * scale > room ? -tip.offsetWidth - 18 : 18)))}px`;
  tip.style.top = `${y * scale + 14}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

function drawLegend() {
  const last = strengths.at(-1);
  const outlines = (r) => (mixed ? diamond(6.5, 7, r) + triangle(19.5, 7, r) : diamond(13, 7, r));
  byId("plot-legend").replaceChildren(
    legend([
      [svg("path", { class: "front", d: "M1 11H13V3H25" }), "front: no model is both fairer and more useful"],
      [svg("path", { class: "step", d: outlines(6) }), "can be chosen here"],
      [svg("path", { class: "chosen-mark", d: outlines(6.5) }), "chosen"],
      [svg("line", { class: "limit", x1: 13, x2: 13, y1: 0, y2: 14 }), "limit on unfairness"],
      ...(tested ? [[testedKey(), `the chosen model on test rows, with ${levelText} intervals`]] : []),
      ...chanceKey(data.models, data.views[data.selected.view], "what a fair score reaches by chance on the test rows"),
    ]),
    ...(mixed ? [legend(data.families.map(({ one }, family) => [marksOf(last, family, [[13, 7]], 6), one]))] : []),
    legend(strengths.map((strength) => [marksOf(strength, 0, [[13, 7]]), `strength ${strength}`])),
  );
}
