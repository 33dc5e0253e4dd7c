// The chosen metric beside the map: a legend, whose colours show their nodes alone; the figures over all nodes; and
// their last minutes.
//
// Every number stands with the nodes that it covers. The drawing of the last minutes has a description in words.

import { coverageOf } from "./coverage.js";
import { count, element, link, moment, paint, rangeOf, setAttribute, setText, short } from "./dom.js";

export const KEPT_MS = 600_000;
const WIDTH = 120; // of the drawing
const HEIGHT = 30;
const APART_MS_MAX = 45_000; // between two answers; otherwise the line is broken
const ALONE_MS = 15_000; // the least width, as of a single answer
const SVG = "http://www.w3.org/2000/svg";
const SHARES = { "5 %": "0.05", median: "0.5", "95 %": "0.95", "99 %": "0.99" };

const part = (name) => document.getElementById(name);
const boxes = new Map(); // the figures by name

export function drawMetric(metrics) {
  const { name, figures, forest } = metrics;
  part("metric-part").hidden = name === null;
  if (name === null || !forest) return;
  setAttribute(part("metric-part"), "aria-label", name);
  const found = figures?.metrics.find((each) => each.name === name);
  drawScale(metrics);
  drawFigures(metrics, found);
  const past = metrics.past.filter(({ values }) => values.has(name));
  drawPast(past.map(({ at, values }) => ({ at, ...values.get(name) })));
  const { classes } = metrics;
  setText(part("figures-told"), figures ? `${name}: ${coverageOf(figures, "reported")}` : "");
  setText(part("classes-told"), classes ? `Colours: ${coverageOf(classes.coverage, "told")}` : "Asking all nodes.");
  const state = (what) => (what === "colours" ? classes : figures) ? "the last ones" : "not known";
  const notes = Object.entries(metrics.errors).map(([what, error]) => `The ${what} are ${state(what)}: ${error}.`);
  if (figures && !found) notes.push("No node tells this metric just now.");
  part("metric-note").hidden = !notes.length;
  setText(part("metric-note"), notes.join(" "));
}

// -- the legend -----------------------------------------------------------------------------------------------------

function drawScale(metrics) {
  const { classes, forest, name } = metrics;
  const scale = part("scale");
  scale.hidden = !classes;
  if (!classes) return;
  const counts = classes.countsOf(forest.nodes.values());
  if (scale.children.length !== counts.length) {
    scale.replaceChildren(...counts.map(() => element("li", {}, newStep())));
  }
  counts.forEach((number, at) => {
    const step = scale.children[at].firstChild;
    const of = at === counts.length - 1 ? null : at;
    paint(step.firstChild, classes.shadeOf(of));
    setText(step.children[1], boundOf(classes, of));
    setText(step.children[2], number.toLocaleString("en"));
    setAttribute(step, "aria-label", `${classes.wordsOf(of)}: ${count(number, "node")}`);
    step.onclick = () => metrics.pick((node) => classes.numberOf(node) === of, `${name}, ${classes.wordsOf(of)}`);
  });
}

function newStep() {
  const parts = ["swatch", "bound", "quiet"].map((kind) => element("span", { class: kind }));
  return element("button", { type: "button", class: "step" }, ...parts);
}

// The upper bound of a class; of the last one the lower.
function boundOf(classes, number) {
  const { thresholds } = classes;
  if (number === null || !thresholds.length) return classes.wordsOf(number);
  return number < thresholds.length ? `≤ ${short(thresholds[number])}` : `> ${short(thresholds.at(-1))}`;
}

// -- the figures ----------------------------------------------------------------------------------------------------

function drawFigures({ goTo }, found) {
  const shown = {};
  if (found) {
    const { quantiles } = found;
    shown.nodes = found.count.toLocaleString("en");
    shown.least = short(found.min);
    for (const [name, share] of Object.entries(SHARES)) shown[name] = short(quantiles[share]);
    shown.greatest = short(found.max);
    shown.sum = short(found.sum);
  }
  for (const name of ["nodes", "sum", "least", ...Object.keys(SHARES), "greatest"]) {
    const text = shown[name] ?? null;
    if (!boxes.has(name)) {
      boxes.set(name, element("div", {}, element("dt", {}, name), element("dd")));
      part("spread").append(boxes.get(name));
    }
    const box = boxes.get(name);
    box.hidden = text === null;
    const on = name === "greatest" ? found?.top[0]?.address : null;
    const words = on ? `${text} on ${on}` : text ?? "";
    if (box.lastChild.textContent === words) continue;
    box.lastChild.replaceChildren(...(on ? [`${text} on `, link(on)] : [words]));
  }
  part("spread").onclick = ({ target }) => target.dataset.go && goTo(target.dataset.go);
}

// -- the last minutes -----------------------------------------------------------------------------------------------

// `past`: {at, low, middle, high}, oldest first.
function drawPast(past) {
  part("past").parentElement.hidden = !past.length;
  if (!past.length) return;
  const least = Math.min(...past.map(({ low }) => low));
  const greatest = Math.max(...past.map(({ high }) => high));
  const medians = past.map(({ middle }) => middle);
  const median = rangeOf(Math.min(...medians), Math.max(...medians));
  const most = rangeOf(least, greatest);
  const since = moment(past[0].at).slice(0, -3);
  setText(part("past-text"), `Since ${since}: median ${median}, 5 \u2013 95 % ${most}`);
  const now = past.at(-1).at;
  const x = (at) => (WIDTH * (1 - (now - at) / KEPT_MS)).toFixed(2);
  const share = (value) => (greatest > least ? (value - least) / (greatest - least) : 0.5);
  const y = (value) => (HEIGHT - 1 - (HEIGHT - 2) * share(value)).toFixed(2);
  const line = (points, of) => points.map((each) => `${x(each.at)} ${y(each[of])}`).join("L");
  const parts = runsOf(past).flatMap((run) => {
    const end = run.at(-1).at;
    const points = end - run[0].at < ALONE_MS ? [{ ...run[0], at: end - ALONE_MS }, ...run] : run;
    const band = `M${line(points, "high")}L${line([...points].reverse(), "low")}Z`;
    return [drawn("band", band), drawn("middle", `M${line(points, "middle")}`)];
  });
  const unknown = `M0 ${HEIGHT - 0.5}H${Math.max(0, x(past[0].at - ALONE_MS))}`;
  part("past").replaceChildren(drawn("unknown", unknown), ...parts);
}

function runsOf(past) {
  const runs = [];
  for (const each of past) {
    if (each.at - (runs.at(-1)?.at(-1).at ?? -Infinity) > APART_MS_MAX) runs.push([]);
    runs.at(-1).push(each);
  }
  return runs;
}

function drawn(kind, d) {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", kind);
  made.setAttribute("d", d);
  return made;
}
