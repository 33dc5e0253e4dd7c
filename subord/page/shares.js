// The shares of the classes of work, while no node is chosen: what the root wants, gave and saw used, now and in at
// most half an hour, with the nodes that its decisions cover. Nothing is shown while no operator has set shares.
//
// Each row is drawn from 0 to the greatest of its values. The lines differ in dashes, not only in colour; each
// drawing has a description in words.

import { count, element, moment, setText } from "./dom.js";
import { coverageOf } from "./coverage.js";
import { newCurve, pen, runsOf, spanOf } from "./curves.js";
import { Poller } from "./poll.js";

const POLL_MS = 5_000; // as the root keeps moments
const POLL_MS_OFF = 30_000; // the asked node answers alone
const SPANS_S = [300, 600, 1_800]; // of the drawings: the shortest in which all moments fit
const APART = 2.5; // moments missing, and the line is broken

const part = (name) => document.getElementById(`shares${name}`);
let last = null; // the last answer with figures of the root: {found, at}
let isVisible = true;

const poller = new Poller({
  path: "v1/shares/past",
  pollMs: () => (part("").hidden ? POLL_MS_OFF : POLL_MS),
  take,
  fail: (error) => setNote(last && `The shares are not known now: ${error}. These are of ${moment(last.at)}.`),
});

export const shares = {
  start: () => poller.plan(0),
  show(visible) {
    isVisible = visible;
    showPart();
    poller.show(visible);
  },
};

function showPart(has = document.body.classList.contains("has-shares")) {
  document.body.classList.toggle("has-shares", has);
  part("").hidden = !(has && isVisible);
}

function take(found, at) {
  if (!Array.isArray(found?.classes) || !Array.isArray(found.curves)) return "the answer has no classes";
  const { version, classes, address, undecided } = found;
  showPart(version !== null);
  part("-figures").hidden = !classes.length;
  if (!classes.length) {
    last = null;
    setNote(null);
    setText(part("-told"), "");
    setText(part("-summary"), `Off by version ${version}: the groups of the classes have the weights from before.`);
    return null;
  }
  const isKnown = address !== null;
  if (isKnown) last = { found, at };
  else if (last?.found.version !== version) last = null;
  draw(last ? last.found : found);
  const why = isKnown ? undecided && `No decision in the last round: ${undecided}.` : unknown(found);
  setNote(why);
  return null;
}

function unknown({ missing }) {
  const [cause] = missing.map((each) => `${each.addresses.join(", ")} ${each.cause}`);
  const state = last ? ` These are of ${moment(last.at)}.` : "";
  return `The root has not told its figures: ${cause ?? "it is not known why"}.${state}`;
}

function setNote(text) {
  part("-note").hidden = !text;
  setText(part("-note"), text || "");
}

// -- the table ----------------------------------------------------------------------------------------------------

function draw(found) {
  const { version, round_s: round, classes, curves, address } = found;
  const few = curves.length && curves.length < classes.length ? `, curves of the ${curves.length} largest` : "";
  const many = count(classes.length, "class", "classes");
  setText(part("-summary"), `Version ${version}, rounds of ${round} s, ${many}${few}.`);
  setText(part("-told"), address === null ? "" : `${coverageOf(found, "in the decisions")}${formerly(found)}`);
  const span = spanOf(SPANS_S, found.ages_s);
  setText(part("-span"), `${span / 60} min`);
  const rows = part("-rows");
  if (rows.children.length !== classes.length) rows.replaceChildren(...classes.map(newRow));
  classes.forEach((each, at) => drawRow(rows.children[at], each, found, span));
}

// " In this time: 490 to 500 of 500 nodes.", where others were in the decisions than now.
function formerly({ nodes_told: told, nodes_asked: asked, told: now }) {
  if (!told.length) return "";
  const [least, most] = [Math.min(...told), Math.max(...told)];
  if (least === most && most === now) return "";
  const range = [...new Set([least, most])].map((each) => each.toLocaleString("en")).join(" to ");
  return ` In this time: ${range} of ${count(Math.max(...asked), "node")}.`;
}

function newRow() {
  const needy = element("span", { class: "needy", title: "work was left over on at least one node" }, "needy");
  const name = element("th", { scope: "row" }, element("span"), " ", needy);
  return element("tr", {}, name, newCurve(), element("td"), element("td"), element("td"));
}

function drawRow(row, { name, wanted, got, used, needy }, { curves, ages_s: ages, every_s: every }, span) {
  const [head, drawing, ...numbers] = row.children;
  setText(head.firstChild, name);
  head.lastChild.hidden = !needy;
  [wanted, got, used].forEach((value, at) => setText(numbers[at], percent(value)));
  const curve = curves.find((each) => each.name === name);
  const [svg, words] = drawing.children;
  svg.setAttribute("class", curve ? "" : "none");
  svg.replaceChildren(...(curve ? linesOf(curve, ages, every, span) : []));
  setText(words, curve && ages.length ? `used ${rangeOf(curve.used)}, got ${rangeOf(curve.got)}` : "no curve");
}

function percent(value) {
  return value === null ? "–" : `${Number(value.toFixed(1))}\u00a0%`;
}

function rangeOf(values) {
  const known = values.filter((each) => each !== null);
  if (!known.length) return "not known";
  return `${percent(Math.min(...known))} to ${percent(Math.max(...known))}`;
}

// -- a drawing ----------------------------------------------------------------------------------------------------

function linesOf({ wanted, got, used }, ages, every, span) {
  const { before, lines, areas } = pen(span, Math.max(1, ...wanted, ...got, ...used)); // null counts as 0
  const runs = (values) => runsOf(values, ages, APART * every, span);
  const known = [...areas(runs(used)), ...lines("got", runs(got)), ...lines("used", runs(used))];
  return [before(ages[0]), ...known, ...lines("wanted", runs(wanted))];
}
