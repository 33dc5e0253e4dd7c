// The chosen node: facts, the path to the root, and its own reasons for its place.
//
// Facts and path come from the tree and are shown at once. The reasons are asked of the node itself, which may take
// WHY_S_MAX seconds or fail; nothing else waits for them.

import { ask } from "./api.js";
import { count, duration, element, exact, link, moment, roundTrip, setText, shape } from "./dom.js";

const WHY_S_MAX = 5;
const REST_MS = 250; // no question to nodes that the arrow keys only pass
const CANDIDATES_MAX = 24; // shown, and the leader; a node of a large cluster has as many as there are nodes

const PLACES = { root: "the root", home: "at home", guest: "a guest" };

export class NodePanel {
  // `goTo(key)` shows another node; `now()`: the time to which ages are counted, in ms; `classes()`: of metrics.js.
  constructor({ goTo, now, classes }) {
    Object.assign(this, { goTo, now, classes });
    this.key = null;
    this.forest = null;
    this.known = null; // the node as it was last seen
    this.request = null;
    this.facts = new Map();
    this.drawnPath = "";
    const part = (name) => document.getElementById(name);
    Object.assign(this, { title: part("node-title"), place: part("node") });
    Object.assign(this, { list: part("facts"), steps: part("path"), why: part("why"), lost: part("node-gone") });
    part("ask-again").addEventListener("click", () => this._ask(0));
    part("node").addEventListener("click", (event) => {
      const link = event.target.closest("[data-go]");
      if (link) this.goTo(link.dataset.go);
    });
  }

  choose(key) {
    if (key === this.key) return;
    this.key = key;
    this.known = null;
    this.request?.abort();
    this.why.replaceChildren();
    this.draw();
    if (key !== null) this._ask(REST_MS);
  }

  // A new forest.
  show(forest) {
    this.forest = forest;
    this.draw();
  }

  draw() {
    this.place.hidden = this.key === null;
    setText(this.title, this.key ?? "");
    if (this.key === null || !this.forest) return;
    const node = this.forest.nodes.get(this.key);
    this.lost.hidden = Boolean(node);
    setText(this.lost, `It is not in the tree${this.known ? " any more; this is its last known state" : ""}.`);
    this.known = node ?? this.known;
    this._drawFacts(this.known);
    this._drawPath(this.known);
  }

  // Once a second: updates the durations.
  tick() {
    if (this.known && this.key !== null) this._drawFacts(this.known);
  }

  _drawFacts(node) {
    const facts = node ? factsOf(node, this.now()) : [];
    const classes = this.classes();
    if (node && classes) facts.push([classes.name, classes.wordsOf(classes.numberOf(node))]);
    const names = facts.map(([name]) => name);
    if ([...this.facts.keys()].join() !== names.join()) {
      this.facts = new Map(names.map((name) => [name, element("dd")]));
      const rows = names.map((name) => element("div", {}, element("dt", {}, name), this.facts.get(name)));
      this.list.replaceChildren(...rows);
    }
    for (const [name, text] of facts) setText(this.facts.get(name), text);
  }

  _drawPath(node) {
    const path = node ? this.forest.path(node) : [];
    const drawn = path.map((each) => `${each.key} ${each.shape}`).join();
    if (drawn === this.drawnPath) return;
    this.drawnPath = drawn;
    const hadFocus = this.steps.contains(document.activeElement);
    const steps = path.map((each) =>
      element("li", {}, shape(each.shape), each === node ? element("b", {}, each.key) : link(each.key)),
    );
    this.steps.replaceChildren(...steps);
    if (hadFocus) this.steps.querySelector("button")?.focus();
  }

  // -- why ----------------------------------------------------------------------------------------------------------

  async _ask(restMs) {
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    const address = this.forest?.nodes.get(this.key)?.address ?? this.key;
    await new Promise((done) => setTimeout(done, restMs));
    if (request.signal.aborted) return;
    this.why.replaceChildren(element("p", { class: "quiet" }, `Asking ${address}.`));
    const query = new URLSearchParams({ address });
    const answer = await ask(`v1/why?${query}`, { seconds: WHY_S_MAX, signal: request.signal });
    if (request.signal.aborted) return;
    const { error, document: reasons } = answer;
    const parts = error ? [element("p", { class: "warning" }, asSentence(error))] : reasonsOf(reasons, address);
    this.why.replaceChildren(...parts);
  }
}

function asSentence(text) {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function factsOf(node, now) {
  const { row } = node;
  const marks = node.marks.filter((mark) => mark !== "home" && mark !== "guest");
  const place = marks.includes("down") ? "" : PLACES[row.place] ?? "";
  const facts = [
    ["state", [place, ...marks].filter(Boolean).join(", ")],
    ["for", timeOf(node.since, now)],
    [marks.includes("down") ? "last leader" : "leader", row.leader ?? "none"],
    ["position", `${exact(row.position)}, level ${row.level}${offsetOf(row)}`],
    ["depth", `${node.depth} in the real tree`],
    ["below", `${count(node.subordinates.length, "subordinate")}, ${count(node.below, "node")} in all`],
  ];
  if (isNumber(row.round_trip_s)) facts.push(["round trip", `${roundTrip(row.round_trip_s)} to its leader`]);
  if (isNumber(row.performance)) facts.push(["performance", `${row.performance} jobs in the cluster's unit of time`]);
  if (row.maintenance) facts.push(["maintenance", String(row.maintenance)]);
  if (row.apart) facts.push(["apart", row.apart]);
  return facts;
}

function timeOf(since, now) {
  return since === null ? "not known" : `${duration((now - since) / 1000)}, since ${moment(since)}`;
}

function offsetOf(row) {
  return row.offset === undefined ? "" : `, offset ${exact(row.offset)}`;
}

function isNumber(quantity) {
  return typeof quantity === "number";
}

function reasonsOf(reasons, address) {
  const parts = [element("p", {}, asSentence(String(reasons.reason ?? "It gives no reason")))];
  const { candidates = [], others = [], leader } = reasons;
  const known = [...candidates, ...others];
  if (!known.length) return parts;
  const shown = known.filter((each, at) => at < CANDIDATES_MAX || each.address === leader);
  const head = ["candidate", "position", "level", "last answer"].map((name) => element("th", { scope: "col" }, name));
  const lines = shown.map((each) => candidateLine(each, leader));
  const caption = element("caption", {}, "Its candidates, best first; its leader has a mark.");
  const body = [element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines)];
  parts.push(element("table", {}, caption, ...body));
  const more = known.length - shown.length;
  const rest = `${count(more, "more candidate")}: subord why ${address} lists all.`;
  if (more) parts.push(element("p", { class: "quiet" }, rest));
  return parts;
}

function candidateLine(candidate, leader) {
  const { address, position, level, answer, since_s: agoS } = candidate;
  const lastAnswer = answer === null ? "not asked" : `${answer}${isNumber(agoS) ? ` (${duration(agoS)} ago)` : ""}`;
  const isLeader = address === leader;
  const cells = [exact(position), level, lastAnswer].map((text) => element("td", {}, String(text)));
  const name = element("th", { scope: "row" }, isLeader ? "* " : "", link(address));
  return element("tr", { class: isLeader ? "leader" : null }, name, ...cells);
}
