// Words and numbers about the chosen model: summary, table, training, how to use it.

function showSummary() {
  const model = currentModel();
  const view = currentView();
  const point = pointOf.get(model.snapshot);
  const tested = data.test_rows > 0;
  const value = (row) => (tested ? row.test : row.validation);
  const utility = model.rows[0];
  const worst = view.columns.map((column) => model.rows[column + 1]).reduce((a, b) => ((value(b) ?? -1) > (value(a) ?? -1) ? b : a));
  const between = (row) => (row.low === null ? "" : ` (${levelText} interval ${fixed(row.low)} to ${fixed(row.high)})`);
  const where = tested ? `On ${rowsText(data.test_rows)} test rows` : `On ${rowsText(data.validation_rows)} validation rows`;
  say("chosen-who", `Snapshot ${model.snapshot}: ${whoText(point)}${isSelectedModel() ? "; selected by the run" : ""}.`);
  say("chosen-summary",
    `${where}: ${utility.metric} ${fixed(value(utility))}${between(utility)}, ` +
    `${worst.metric} by ${worst.attribute} ${fixed(value(worst))}${between(worst)}` +
    `${view.columns.length > 1 ? ", the largest over the attributes" : ""}.`);
  const classes = data.labels.length > 2;
  byId("chosen-note").textContent = classes ? `Unfairness is that of the worst of the ${data.labels.length} classes, each assessed by its own probability.` : "";
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
  const value = data.test_rows > 0 ? row.test : row.validation;
  const kept = row.attribute === "" ? value >= limit : value <= limit;
  return `${row.attribute === "" ? "≥" : "≤"} ${limit}: ${value === null ? "undefined" : kept ? "kept" : "not kept"}`;
}

function showTable() {
  const model = currentModel();
  const number = (text) => html("td", { class: "number" }, text);
  byId("metrics-body").replaceChildren(
    ...model.rows.map((row, place) =>
      html("tr", { "data-measure": row.attribute === "" ? row.metric : measureText([row.metric, row.attribute]) },
        html("th", { scope: "row" }, row.attribute === "" ? row.metric : measureText([row.metric, row.attribute]),
          row.note ? html("div", { class: "small" }, row.note) : null),
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
    ["penalty", "Penalty", "what can be told about the attributes; 0 is nothing"],
  ];
  const figures = curves.map(([, title, meaning]) =>
    html("figure", { class: "card" }, html("h3", {}, title), html("p", { class: "small" }, meaning)));
  const box = byId("training-figures");
  const single = entry.iterations.length < 2;
  const oneStep = until <= 1 && !isTrees(entry);
  const why = oneStep ? "this model was found in one step" : `training was looked at once, at ${moment} ${until}`;
  box.replaceChildren(...(single ? [html("p", {}, `There is no curve: ${why}.`)] : figures));
  if (!single) curves.forEach(([key, title], k) => {
    figures[k].append(curveChart(entry.iterations, entry[key], until, title, moment, Math.max(240, figures[k].clientWidth - 40)));
  });
  const health = model.health;
  byId("health").replaceChildren(
    ...(health.messages.length
      ? health.messages.map((message) => html("p", { class: "note" }, message))
      : [html("p", {}, "Nothing to report: the score varies, and nothing suggests that the training went astray.")]),
    html("dl", { class: "facts" },
      html("dt", {}, "Spread of the score, relative to the outcome's"), html("dd", {}, fixed(health.score_spread, 3)),
      html("dt", {}, "Largest linear correlation with an attribute"), html("dd", {}, fixed(health.correlation, 3)),
      ...(health.critic_value === null ? [] : [
        html("dt", {}, "What the critic could tell at the end (0: nothing)"), html("dd", {}, fixed(health.critic_value))])),
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
  const options = [`--max-unfairness ${asRun ? "" : limitToAsk(view)}`, `--metric ${shellQuoted(view.metric)}`];
  if (view.attribute !== null) options.push(`--attribute ${shellQuoted(view.attribute)}`);
  byId("use-select").hidden = asRun;
  byId("use-selected").hidden = !asRun;
  byId("select-command").textContent = asRun ? "" : `${data.select_command} ${options.join(" ")}`;
  const wishes = [`max_unfairness=${asRun ? "" : limitToAsk(view)}`, `metric=${JSON.stringify(view.metric)}`];
  if (view.attribute !== null) wishes.push(`attribute=${JSON.stringify(view.attribute)}`);
  const call = asRun ? data.selected.python : `frontier.select(${wishes.join(", ")})`;
  const scores = data.predicts === "predict" ? "model.predict(X)" : `model.predict_proba(X)${data.labels.length === 2 ? "[:, 1]" : ""}`;
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
