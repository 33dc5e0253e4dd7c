// The metric by which the nodes are coloured: what the user chose, its figures, their history, and the class of each
// node.
//
// The daemon folds the figures, and says which nodes are in which class (docs/metrics.md). The figures are asked for
// without a chosen metric, too, but rarely: so there is a history when one is chosen.

import { count, element, oncePerFrame, rangeOf, short } from "./dom.js";
import { Poller } from "./poll.js";
import { drawMetric, KEPT_MS } from "./spread.js";

const POLL_MS = 10_000; // as nodes publish
const POLL_MS_UNSEEN = 30_000;
const REST_MS = 1_000; // between two questions to all nodes
const SHADES = 9; // of page.css

const choice = document.getElementById("metric");

// The nodes by their class, as `/v1/metrics/classes` says.
class Classes {
  constructor({ name, thresholds, classes, least, greatest, ...coverage }) {
    Object.assign(this, { name, thresholds, least, greatest, coverage });
    this.spans = classes.flatMap(({ number, positions }) => spansOf(number, positions));
    this.spans.sort((one, other) => one.first - other.first);
  }

  // Null: no value is known.
  numberOf({ row: { position } }) {
    let [low, high] = [0, this.spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.spans[middle].first <= position) low = middle + 1;
      else high = middle;
    }
    const span = this.spans[low - 1];
    return span && position <= span.last ? span.number : null;
  }

  // The colour of a class: a number of page.css; null: that of no value.
  shadeOf(number) {
    if (number === null) return null;
    const most = this.thresholds.length;
    return most ? Math.round((number * (SHADES - 1)) / most) : (SHADES - 1) / 2;
  }

  wordsOf(number) {
    if (number === null) return "no value";
    const most = this.thresholds.length;
    const [low, high] = [this.thresholds[number - 1], this.thresholds[number]].map(short);
    if (!most) return rangeOf(this.least, this.greatest);
    return number === 0 ? `up to ${high}` : number === most ? `over ${low}` : `${low} to ${high}`;
  }

  // The number of nodes in each class, and last of those without a value.
  countsOf(nodes) {
    const counts = new Array(this.thresholds.length + 2).fill(0);
    for (const node of nodes) counts[this.numberOf(node) ?? counts.length - 1]++;
    return counts;
  }

  // What the colours of these nodes say.
  inWords(nodes) {
    const counts = this.countsOf(nodes);
    const without = counts.pop();
    const said = counts.map((number, at) => `${this.wordsOf(at)}: ${count(number, "node")}`);
    return `Coloured by ${this.name}. ${said.join("; ")}; no value: ${count(without, "node")}.`;
  }
}

function spansOf(number, positions) {
  return String(positions).split(",").map((piece) => {
    const [first, last = first] = piece.split("-").map(Number);
    return { first, last, number };
  });
}

export class Metrics {
  // `onChange()`: the colours are others; `pick(has, words)`: shows the nodes for which `has(node)`; `goTo(key)`.
  constructor({ onChange, pick, goTo }) {
    Object.assign(this, { onChange, pick, goTo });
    this.name = null; // null: nodes are coloured by state
    this.figures = null;
    this.classes = null;
    this.past = []; // {at, values: name -> {low, middle, high}}, oldest first
    this.errors = {};
    this.forest = null;
    this.drawSoon = oncePerFrame(() => drawMetric(this));
    choice.addEventListener("change", () => this._choose(choice.value || null));
    this.asking = new Poller({
      path: "v1/metrics/figures",
      pollMs: () => (this.name === null ? POLL_MS_UNSEEN : POLL_MS),
      take: (found, at) => this._take(found, at),
      fail: (error) => this._fail("figures", error),
    });
    this.sorting = new Poller({
      path: "",
      pollMs: () => POLL_MS,
      restMs: REST_MS,
      take: (found) => this._sort(found),
      fail: (error) => this._fail("colours", error),
    });
    this.sorting.visible = false;
  }

  start() {
    this.asking.plan(0);
  }

  // A new tree.
  show(forest) {
    this.forest = forest;
    this.drawSoon();
  }

  _choose(name) {
    this.name = name;
    this.classes = null;
    this.errors = {};
    this.sorting.path = `v1/metrics/classes?${new URLSearchParams({ name })}`;
    this.sorting.failures = 0;
    this.sorting.show(name !== null);
    if (name !== null) this.asking.plan(0);
    document.body.classList.toggle("has-metric", name !== null);
    this.drawSoon();
    this.onChange();
  }

  _take(found, at) {
    if (!Array.isArray(found?.metrics)) return "the answer is no list";
    this.figures = found;
    const values = new Map(
      found.metrics.map(({ name, quantiles }) => {
        const [low, middle, high] = ["0.05", "0.5", "0.95"].map((share) => quantiles[share]);
        return [name, { low, middle, high }];
      }),
    );
    this.past = this.past.filter((each) => at - each.at < KEPT_MS);
    if (values.size) this.past.push({ at, values });
    this._offer(found.metrics.map(({ name }) => name));
    return this._done("figures");
  }

  _sort(found) {
    if (found?.name !== this.name) return null; // of the metric before
    if (!Array.isArray(found.classes) || !Array.isArray(found.thresholds)) return "the answer has no classes";
    this.classes = new Classes(found);
    this.onChange();
    return this._done("colours");
  }

  _done(what) {
    delete this.errors[what];
    this.drawSoon();
    return null;
  }

  _fail(what, error) {
    this.errors[what] = error;
    this.drawSoon();
  }

  // Only a difference is written: the list may be open.
  _offer(names) {
    const wanted = this.name === null || names.includes(this.name) ? names : [...names, this.name];
    if (this.offered === wanted.join("\n")) return;
    this.offered = wanted.join("\n");
    const none = names.length ? [] : [element("option", { disabled: true }, "no node tells metrics")];
    const options = wanted.map((name) => element("option", { value: name }, name));
    choice.replaceChildren(element("option", { value: "" }, "state"), ...options, ...none);
    choice.value = this.name ?? "";
  }
}
