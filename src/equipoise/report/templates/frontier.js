// What happens when something is moved.

function showAll() {
  showControls();
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

function reset() {
  state.view = data.selected.view;
  state.limit = data.selected.limit;
  setModel(data.selected.model);
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

let drawnWidth = 0;
window.addEventListener("resize", () => {
  if (drawnWidth === document.documentElement.clientWidth) return;
  drawnWidth = document.documentElement.clientWidth;
  requestAnimationFrame(showAll);
});

// On paper nothing can be unfolded.
window.addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));

document.documentElement.classList.remove("no-js");
drawLegend();
reset();
