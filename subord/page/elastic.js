// Elastic growth, while no node is chosen: what the node that has the queue sees and does, and the curves of its last
// polls. Nothing is shown while no operator has published a plan.

import { newCurve, pen, runsOf, spanOf } from "./curves.js";
import { count, duration, element, fill, sentence, setText } from "./dom.js";
import { Panel } from "./panel.js";

const SPANS_S = [900, 3_600, 10_800]; // of the drawings: the shortest in which all polls fit
const APART = 10; // as many polls missing, and the line is broken
const CURVES = [["hosts", "num_hosts"], ["jobs waiting", "queued"], ["jobs running", "running"]];

export const elastic = new Panel("elastic", "v1/elastic/past", {
  has: "the queue",
  wrong: ({ stages, why }) => (Array.isArray(stages) && Array.isArray(why) ? null : "the answer has no stages"),
  off({ version }) {
    part("-figures").hidden = true;
    part("-stages").hidden = true;
    fill(part("-why"), []);
    setText(part("-summary"), `Off by version ${version}: nodes stay as they are.`);
  },
  draw,
  notes: notesOf,
});
const part = (name) => elastic.part(name);

// -- in words -----------------------------------------------------------------------------------------------------

// What needs an operator.
function notesOf({ state, text, detail, fault, figures, stages }) {
  const notes = [];
  if (state !== "manages") notes.push(sentence(detail ? `${text}: ${detail}` : text));
  if (fault) notes.push(sentence(`The last poll failed: ${fault}`));
  const blocked = figures?.blocked_s;
  if (blocked) notes.push(`Nodes have been wanted for ${duration(blocked)}, and none was added.`);
  for (const { stage, fault: why } of stages) if (why) notes.push(sentence(`${stage}: ${why}`));
  return notes;
}

function summaryOf({ address, state, figures, trial }) {
  const where = `${address} has the queue`;
  const only = trial ? " A trial: nothing is done." : "";
  if (state === null) return `${where}.`;
  if (!figures) return `${where}; no poll has succeeded yet.${only}`;
  const { size, min_nodes: least, max_nodes: most, needed, age_s: age } = figures;
  const nodes = `${count(size, "node")} of ${least} to ${most}, ${needed} needed`;
  return `${nodes}; ${where}, polled ${duration(age)} ago.${only}`;
}

function stagesOf(stages) {
  const each = stages.map(({ stage, nodes, longest_s: longest }) => `${nodes} ${stage} for ${duration(longest)}`);
  return each.length ? `Under way: ${each.join(", ")}.` : "";
}

// -- the curves ---------------------------------------------------------------------------------------------------

function draw(found) {
  setText(part("-summary"), summaryOf(found));
  setText(part("-stages"), stagesOf(found.stages));
  part("-stages").hidden = !found.stages.length;
  fill(part("-why"), found.why.map(sentence));
  const { ages_s: ages } = found;
  part("-figures").hidden = !ages.length;
  const span = spanOf(SPANS_S, ages);
  setText(part("-span"), span < 3_600 ? `${span / 60} min` : `${span / 3_600} h`);
  const rows = part("-rows");
  if (!rows.children.length) rows.replaceChildren(...CURVES.map(([name]) => newRow(name)));
  CURVES.forEach(([, field], at) => drawRow(rows.children[at], found[field], found.figures?.[field], ages, span));
}

function newRow(name) {
  return element("tr", {}, element("th", { scope: "row" }, name), newCurve(), element("td"));
}

// `value`: the exact one of now, where it is known; the last point may be the most of several polls.
function drawRow(row, values, value, ages, span) {
  const [, drawing, now] = row.children;
  setText(now, (value ?? values.at(-1))?.toLocaleString("en") ?? "–");
  const [svg, words] = drawing.children;
  const { lines, areas } = pen(span, Math.max(1, ...values));
  const runs = runsOf(values, ages, APART * everyOf(ages), span);
  svg.replaceChildren(...areas(runs), ...lines("line", runs));
  setText(words, values.length ? `${Math.min(...values)} to ${Math.max(...values)}` : "no poll");
}

// The usual time between two points.
function everyOf(ages) {
  const steps = ages.slice(1).map((age, at) => ages[at] - age);
  return Math.max(1, steps.sort((one, other) => one - other)[Math.floor(steps.length / 2)] ?? 1);
}
