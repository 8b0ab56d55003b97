// What is chosen, and what that means: no drawing here.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

/** view: which metric and attribute. limit: tolerated unfairness, null for the run's own wish. */
const state = { view: 0, limit: null, model: 0, edge: null };

const NOT_KNOWN = "–";
const fixed = (value, digits = 4) => (value === null || value === undefined ? NOT_KNOWN : value.toFixed(digits));
const percent = (share) => (Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : NOT_KNOWN);
const rowsText = (count) => count.toLocaleString("en", { maximumFractionDigits: 1 });
const levelText = `${Number((100 * data.level).toPrecision(6))} %`;

const scoreWord = data.utility === "R2" ? "prediction" : "score";
/** Rates of fewer rows than this are a few people. */
const FEW_ROWS = 30;

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
const isTrees = (entry) => entry.predictor === "boosting";
/** Whether networks and boosted trees compete, so that marks must tell them apart. */
const mixed = new Set(data.entries.map((entry) => entry.predictor)).size > 1;
const familyText = (entry) => (isTrees(entry) ? "boosted trees" : "network");
const momentText = (entry) => (isTrees(entry) ? "round" : "iteration");

/** Where a member stands: family, strength, seed and moment, in words. */
function whoText(point) {
  const entry = entryOf(point);
  const who = entry.averaged > 1 ? `average of ${entry.averaged} seeds` : `seed ${entry.seed}`;
  const family = mixed || isTrees(entry) ? `${familyText(entry)}, ` : "";
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
