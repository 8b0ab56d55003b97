// The page of a frontier: what is chosen, the words and numbers about it, and what happens when something is moved.

/** view: which metric and attribute. limit: tolerated unfairness, null for the run's own limit. */
const state = { view: 0, limit: null, model: 0, edge: null };

const NOT_KNOWN = "–";
const fixed = (value, digits = 4) => (value === null || value === undefined ? NOT_KNOWN : value.toFixed(digits));
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : NOT_KNOWN);
const rowsText = (count) => count.toLocaleString("en", { maximumFractionDigits: 1 });
const levelText = `${Number((100 * data.level).toPrecision(6))} %`;

const scoreWord = data.predicts === "predict" ? "prediction" : "score";
/** Rates of fewer rows than this are a few people. */
const FEW_ROWS = data.few_rows;

const currentView = () => data.views[state.view];
const currentModel = () => data.models[state.model];
const measureText = ([metric, attribute]) => `${metric} by ${attribute}`;
const attributeText = (view) => view.attribute ?? "all attributes";
const viewText = (view) =>
  view.attribute === null ? `${view.metric} of the worst attribute` : `${view.metric} by ${view.attribute}`;

/** Place of a snapshot among the points of the picture. */
const pointOf = new Map(data.points.number.map((number, place) => [number, place]));

/** Unfairness of a point as a view sees it: the largest of its measures; null where undefined. */
function unfairnessAt(view, point) {
  let largest = 0;
  for (const column of view.columns) {
    const value = data.points.unfairness[column][point];
    if (value === null) return null;
    largest = Math.max(largest, value);
  }
  return largest;
}

/** Place, among those shown, of what select picks within a limit; 0 where nothing is within. */
function placeWithin(view, limit) {
  let found = 0;
  view.shown.forEach((each, place) => {
    if (view.unfairness[each.step] <= limit) found = place;
  });
  return found;
}

/** Place of the current model among those shown, -1 where it is none of them. */
const placeOfModel = (view) => view.shown.findIndex((each) => each.model === state.model);

/** Least and largest limit that the slider offers. */
function limitRange(view) {
  const limits = view.shown.map((each) => Number(each.limit));
  const chosen = data.selected.view === data.views.indexOf(view) ? data.selected.limit : null;
  return [limits[0], Math.max(limits.at(-1), chosen ?? 0)];
}

/** The limit that makes select pick the current model, as text. */
function limitToAsk(view) {
  const place = placeOfModel(view);
  const thinned = view.shown.length < view.snapshots.length;
  return thinned || state.limit === null ? view.shown[Math.max(place, 0)].limit : String(state.limit);
}

const isSelectedModel = () => state.model === data.selected.model;

const entryOf = (point) => data.entries[data.points.entry[point]];
/** Families of predictors compete where there are several; marks must then tell them apart. */
const mixed = data.families.length > 1;
const familyPlace = (entry) => data.families.findIndex((family) => family.name === entry.predictor);
const familyText = (entry) => data.families[familyPlace(entry)].one;
const momentText = (entry) => data.families[familyPlace(entry)].moment;

/** How a snapshot came about: family, strength, seed and moment, in words. */
function whoText(point) {
  const entry = entryOf(point);
  const who = entry.averaged > 1 ? `average of ${entry.averaged} seeds` : `seed ${entry.seed}`;
  const family = mixed || entry.predictor !== "network" ? `${familyText(entry)}, ` : "";
  return `${family}strength ${entry.strength}, ${who}, ${momentText(entry)} ${data.points.iteration[point]}`;
}

/** Threshold number j of a model's histogram. */
function edgeAt(scores, j) {
  if (scores.inserted && j === scores.own) return currentModel().threshold;
  const regular = scores.inserted && j > scores.own ? j - 1 : j;
  return Number((scores.first + regular * scores.step).toPrecision(12));
}

/** Shell text for one argument. */
const shellQuoted = (text) => (/^[\w.\/-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function showAll() {
  showControls();
  showMeaning();
  drawPlot();
  showSteps();
  showSummary();
  showTable();
  showTraining();
  showUse();
  drawScores();
  showDecisions();
}

function setModel(number) {
  state.model = number;
  const scores = data.models[number].scores[0];
  state.edge = scores && scores.own !== null ? scores.own : null;
  if (state.edge === null || !byId("threshold")) return;
  const slider = byId("threshold");
  slider.max = String(scores.bins);
  slider.value = String(state.edge);
}

/** Choose by a limit: the most useful model within it, as select does. */
function chooseLimit(limit) {
  const view = currentView();
  const [least, most] = limitRange(view);
  state.limit = Math.min(most, Math.max(least, limit));
  setModel(view.shown[placeWithin(view, state.limit)].model);
  showAll();
}

function chooseStep(place) {
  chooseLimit(Number(currentView().shown[place].limit));
}

/** Ask about another metric or attribute: the model stays if it can be chosen there, too. */
function chooseView(number) {
  state.view = number;
  const view = currentView();
  const place = placeOfModel(view);
  if (place >= 0) return chooseStep(place);
  return chooseLimit(unfairnessAt(view, pointOf.get(currentModel().snapshot)) ?? limitRange(view)[0]);
}

function toSelected() {
  state.view = data.selected.view;
  state.limit = data.selected.limit;
  setModel(data.selected.model);
}

function reset() {
  toSelected();
  showAll();
}

function showControls() {
  const view = currentView();
  fillSelect(byId("metric"), [...new Set(data.views.map((each) => each.metric))], view.metric);
  const beside = data.views.filter((each) => each.metric === view.metric);
  fillSelect(byId("attribute"), beside.map(attributeText), attributeText(view));
  const slider = byId("limit");
  const [least, most] = limitRange(view);
  const limit = state.limit ?? unfairnessAt(view, pointOf.get(currentModel().snapshot)) ?? least;
  slider.min = String(least);
  slider.max = String(most);
  // Writing back what was just read off the slider would disturb a drag.
  if (document.activeElement !== slider || Math.abs(Number(slider.value) - limit) > 1e-3 * (most - least)) slider.value = String(limit);
  const words = state.limit === null ? `as the run was asked: ${fixed(limit)}` : `at most ${state.limit}`;
  byId("limit-value").textContent = words;
  slider.setAttribute("aria-valuetext", `${viewText(view)} ${words}`);
}

function fillSelect(select, names, chosen) {
  const same = select.options.length === names.length && names.every((name, k) => select.options[k].text === name);
  if (!same) select.replaceChildren(...names.map((name) => html("option", {}, name)));
  select.selectedIndex = names.indexOf(chosen);
}

byId("metric").addEventListener("change", (event) => {
  const metric = event.target.options[event.target.selectedIndex].text;
  const same = data.views.findIndex((each) => each.metric === metric && each.attribute === currentView().attribute);
  chooseView(same >= 0 ? same : data.views.findIndex((each) => each.metric === metric));
});
byId("attribute").addEventListener("change", (event) => {
  const beside = data.views.filter((each) => each.metric === currentView().metric);
  chooseView(data.views.indexOf(beside[event.target.selectedIndex]));
});
byId("limit").addEventListener("input", (event) => chooseLimit(Number(Number(event.target.value).toFixed(4))));
byId("reset").addEventListener("click", reset);
byId("threshold")?.addEventListener("input", (event) => {
  state.edge = Number(event.target.value);
  showDecisions();
});
byId("threshold-reset")?.addEventListener("click", () => {
  setModel(state.model);
  showDecisions();
});

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const tested = data.test_rows > 0;
const value = (row) => (tested ? row.test : row.validation);
/** What a model has in a view: a row for each attribute that counts, and the one that is the most unfair. */
const rowsIn = (view, model) => view.columns.map((column) => model.rows[column + 1]);
const worstIn = (view, model) => rowsIn(view, model).reduce((a, b) => ((value(b) ?? -1) > (value(a) ?? -1) ? b : a));

/** Whether a limit is kept, by the rules of equipoise.inference.verdict; null without test rows. */
function verdictOn(row, limit) {
  if (!tested || limit === null) return null;
  if (row.test === null) return "unknown";
  if (row.test > limit) return "beyond";
  if (row.high !== null && row.high <= limit) return "certain";
  return row.resolution !== null && row.resolution > limit ? "unknown" : "within";
}

const inPoints = (row) => data.gaps.includes(row.metric);
const points = (share) => (100 * share).toFixed(1).replace(/\.0$/, "");
const amount = (row, number) => (number === null ? NOT_KNOWN : inPoints(row) ? points(number) : fixed(number, 3));

/** A row, its interval, and the verdict on a limit. */
function rowMeaning(row, limit) {
  const unit = inPoints(row) ? " points" : "";
  const between = row.low === null ? "" : ` (${amount(row, row.low)} to ${amount(row, row.high)})`;
  const verdict = verdictOn(row, limit);
  const words = verdict === null ? "" : `: ${data.verdicts[verdict].replace("{limit}", inPoints(row) ? `${points(limit)} points` : `${row.metric} ${limit}`)}`;
  return `${capital(row.metric)} by ${row.attribute} ${amount(row, value(row))}${unit}${between}${words}.`;
}

/** Most attributes whose verdicts are all said beside the slider; of more, the worst is. */
const MOST_SAID = 3;

/** What the limit means, beside the slider: how useful the model is, and whether it keeps the limit. */
function showMeaning() {
  const model = currentModel();
  const view = currentView();
  const rows = view.columns.length > MOST_SAID ? [worstIn(view, model)] : rowsIn(view, model);
  const own = isSelectedModel() && state.limit === null;
  const where = tested ? `${rowsText(data.test_rows)} test rows` : `${rowsText(data.validation_rows)} validation rows`;
  say("limit-meaning", [
    `On ${where} this model has ${data.utility} ${fixed(value(model.rows[0]), 3)}.`,
    ...rows.map((row) => rowMeaning(row, own ? row.limit : state.limit)),
    ...(model.useless ? ["On the validation rows it is no better than chance."] : []),
  ].join(" "));
}

function showSummary() {
  const model = currentModel();
  const view = currentView();
  const point = pointOf.get(model.snapshot);
  const utility = model.rows[0];
  const worst = worstIn(view, model);
  const between = (row) => (row.low === null ? "" : ` (${levelText} interval ${fixed(row.low)} to ${fixed(row.high)})`);
  const where = tested ? `On ${rowsText(data.test_rows)} test rows` : `On ${rowsText(data.validation_rows)} validation rows`;
  say("chosen-who", `Snapshot ${model.snapshot}: ${whoText(point)}${isSelectedModel() && data.selected.chosen ? "; selected by the run" : ""}.`);
  say("chosen-summary",
    `${where}: ${utility.metric} ${fixed(value(utility))}${between(utility)}, ` +
    `${worst.metric} by ${worst.attribute} ${fixed(value(worst))}${between(worst)}` +
    `${view.columns.length > 1 ? ", the largest over the attributes" : ""}.` +
    `${worst.where ? ` The group that stands out most is ${worst.where}.` : ""}`);
  const classes = data.labels.length;
  byId("chosen-note").textContent = classes > 2
    ? `Unfairness is that of the worst of the ${classes} classes, each assessed by its own probability.`
    : "";
}

/** Put words where screen readers listen, only if they are new: the same words are not read twice. */
function say(id, words) {
  if (byId(id).textContent !== words) byId(id).textContent = words;
}

function limitCell(row, column) {
  const view = currentView();
  if (!view.columns.includes(column) || state.limit === null) return row.limit === null || !isSelectedModel() ? "" : limitWords(row, row.limit);
  return limitWords(row, state.limit);
}

function limitWords(row, limit) {
  const found = value(row);
  const kept = row.attribute === "" ? found >= limit : found <= limit;
  return `${row.attribute === "" ? "≥" : "≤"} ${limit}: ${found === null ? "undefined" : kept ? "kept" : "not kept"}`;
}

function showTable() {
  const model = currentModel();
  const number = (text) => html("td", { class: "number" }, text);
  byId("metrics-body").replaceChildren(
    ...model.rows.map((row, place) =>
      html("tr", { "data-measure": row.attribute === "" ? row.metric : measureText([row.metric, row.attribute]) },
        html("th", { scope: "row" }, row.attribute === "" ? row.metric : measureText([row.metric, row.attribute]),
          ...[row.where, row.note].filter(Boolean).map((text) => html("div", { class: "small" }, text))),
        html("td", {}, limitCell(row, place - 1)),
        number(fixed(row.validation)), number(fixed(row.test)),
        number(row.low === null ? NOT_KNOWN : `${fixed(row.low)} to ${fixed(row.high)}`),
        number(fixed(row.certificate)),
        number(place === 0 ? NOT_KNOWN : fixed(model.joint[place - 1])))),
  );
}

function showTraining() {
  const model = currentModel();
  const point = pointOf.get(model.snapshot);
  const entry = entryOf(point);
  const moment = momentText(entry);
  const until = data.points.iteration[point];
  const curves = [
    ["task", "Task loss", "how well the outcome is predicted; lower is better"],
    ["penalty", "Penalty", "how well the attributes can be told from the score; 0 is not at all"],
  ];
  const figures = curves.map(([, title, meaning]) =>
    html("figure", { class: "card" }, html("h3", {}, title), html("p", { class: "small" }, meaning)));
  const box = byId("training-figures");
  const single = entry.iterations.length < 2;
  const oneStep = until <= 1 && moment === "iteration";
  const why = oneStep ? "this model was found in one step" : `training was checked once, at ${moment} ${until}`;
  box.replaceChildren(...(single ? [html("p", {}, `There is no curve: ${why}.`)] : figures));
  if (!single) curves.forEach(([key, title], k) => {
    const width = Math.max(240, figures[k].clientWidth - 40);
    const rows = entry.iterations.map((iteration, place) => [iteration, fixed(entry[key][place])]);
    figures[k].append(
      curveChart(entry.iterations, entry[key], until, title, moment, width),
      numbersTable(`${title} as a table`, [moment, title], rows),
    );
  });
  const health = model.health;
  byId("health").replaceChildren(
    ...(health.messages.length
      ? health.messages.map((message) => html("p", { class: "note" }, message))
      : [html("p", {}, "Nothing to report: the score varies, and nothing suggests that training failed.")]),
    html("dl", { class: "facts" },
      html("dt", {}, "Spread of the score, relative to the outcome's"), html("dd", {}, fixed(health.score_spread, 3)),
      html("dt", {}, "Largest linear correlation with an attribute"), html("dd", {}, fixed(health.correlation, 3)),
      ...(health.critic_value === null ? [] : [
        html("dt", {}, "What the critic could tell at the end (0 is nothing)"), html("dd", {}, fixed(health.critic_value))])),
  );
}

function curveChart(iterations, values, until, title, moment, width) {
  const drawn = chart({
    width, height: 230, x: [0, iterations.at(-1)], y: extent(values, 0.08), xLabel: moment,
    margin: { top: 12 }, label: `${title} over the ${moment}s`,
  });
  const points = iterations.map((iteration, k) => [drawn.x(iteration), values[k] === null ? NaN : drawn.y(values[k])]);
  const now = drawn.x(until);
  const split = iterations.filter((iteration) => iteration <= until).length;
  drawn.layer.append(
    svg("path", { class: "median dotted", d: linePath(points.slice(Math.max(0, split - 1))) }),
    svg("path", { class: "median", d: linePath(points.slice(0, split)) }),
    svg("line", { class: "threshold", x1: now, x2: now, y1: 12, y2: 230 - drawn.margin.bottom }),
  );
  return drawn.root;
}

function showUse() {
  const view = currentView();
  const asRun = isSelectedModel();
  const limit = asRun ? "" : limitToAsk(view);
  const options = view.by_gap ? [`--max-gap ${limit}`] : [`--max-unfairness ${limit}`, `--metric ${shellQuoted(view.metric)}`];
  if (view.attribute !== null) options.push(`--attribute ${shellQuoted(view.attribute)}`);
  const useless = currentModel().useless;
  if (useless) options.push("--allow-useless");
  byId("use-select").hidden = asRun;
  byId("use-selected").hidden = !asRun;
  byId("select-command").textContent = asRun ? "" : `${data.select_command} ${options.join(" ")}`;
  const wishes = view.by_gap ? [`max_gap=${limit}`] : [`max_unfairness=${limit}`, `metric=${JSON.stringify(view.metric)}`];
  if (view.attribute !== null) wishes.push(`attribute=${JSON.stringify(view.attribute)}`);
  if (useless) wishes.push("allow_useless=True");
  const call = asRun ? data.selected.python : `frontier.select(${wishes.join(", ")})`;
  const scores = data.predicts === "predict" ? `model.predict(${data.arguments})` : `model.predict_proba(${data.arguments})${data.labels.length === 2 ? "[:, 1]" : ""}`;
  byId("python-lines").textContent = [...data.python_lines, `model = ${call}.model`, `scores = ${scores}`].join("\n");
}

function showSteps() {
  const view = currentView();
  const chosen = placeOfModel(view);
  byId("steps-count").textContent = view.shown.length < view.snapshots.length
    ? `${view.shown.length} of the ${view.snapshots.length} models on this front, evenly along it; the command chooses among all.`
    : `All ${view.snapshots.length} models on this front.`;
  byId("steps-unfairness").textContent = viewText(view);
  byId("steps-body").replaceChildren(
    ...view.shown.map((each, place) => {
      const point = pointOf.get(view.snapshots[each.step]);
      const entry = entryOf(point);
      const button = html("button", { type: "button", "aria-pressed": String(place === chosen) }, place === chosen ? "chosen" : "choose");
      button.addEventListener("click", () => {
        chooseStep(place);
        byId("steps-body").rows[place].querySelector("button").focus();
      });
      return html("tr", {},
        mixed ? html("td", {}, familyText(entry)) : null,
        ...[fixed(view.unfairness[each.step]), fixed(data.points.utility[point]), entry.strength,
          entry.averaged > 1 ? `average of ${entry.averaged}` : entry.seed, data.points.iteration[point]]
          .map((value) => html("td", { class: "number" }, String(value))),
        html("td", { class: "no-print" }, button));
    }),
  );
}

drawLegend();
drawIntervals();
toSelected();
drawToWidth(() => {
  drawOverview();
  showAll();
});
