// The problems of the cluster, while no node is chosen: each once, with the folded set of its nodes.
//
// All nodes are asked along the tree, so the page asks rarely, and never while the list is not visible.

import { count, duration, element, setText } from "./dom.js";
import { inShort } from "./fold.js";
import { Poller } from "./poll.js";

const POLL_MS = 30_000;
const AFTER_CHANGE_MS = 2_000; // what moves now is no problem in a moment
const REST_MS = 6_000; // between two questions; the daemon keeps its answer nearly as long
const URGENT = new Set(["duplicate", "refused", "missing", "gone", "down"]);

export class Problems {
  // `goTo(key)` shows a node; `pick(addresses, words)` shows several.
  constructor({ goTo, pick }) {
    Object.assign(this, { goTo, pick });
    this.found = [];
    const part = (name) => document.getElementById(name);
    Object.assign(this, { place: part("problems"), summary: part("problems-summary"), list: part("problem-list") });
    this.note = part("problems-note");
    this.list.addEventListener("click", (event) => {
      const line = this.found[event.target.closest("[data-problem]")?.dataset.problem];
      if (line?.addresses.length === 1) this.goTo(line.addresses[0]);
      else if (line) this.pick(line.addresses, line.text);
    });
    this.poller = new Poller({
      path: "v1/errors",
      pollMs: () => POLL_MS,
      restMs: REST_MS,
      take: (found) => this._take(found),
      fail: (error) => this._fail(error),
    });
  }

  start() {
    this.poller.plan(0);
  }

  show(visible) {
    this.place.hidden = !visible;
    this.poller.show(visible);
  }

  changed() {
    this.poller.plan(AFTER_CHANGE_MS);
  }

  _fail(error) {
    const last = this.found.length ? " These are the last ones." : "";
    setText(this.note, `The problems are not known now: ${error}.${last}`);
    this.note.hidden = false;
    if (!this.found.length) setText(this.summary, "");
  }

  _take(found) {
    if (!Array.isArray(found?.problems)) return "the answer is no list";
    this.found = linesOf(found);
    const { length } = this.found;
    const more = found.more ?? 0;
    const problems = length + more ? count(length + more, "problem") : "no problems";
    const left = found.maintained ? `; ${count(found.maintained, "node")} under maintenance left out` : "";
    setText(this.summary, `${count(found.nodes ?? 0, "node")} answered, ${problems}${left}.`);
    this.note.hidden = found.complete !== false;
    setText(this.note, `Not the whole cluster: ${found.note ?? "the reason is not known"}.`);
    const lines = this.found.map(lineElement);
    if (more) lines.push(element("li", { class: "quiet" }, `and ${more} more, for which there was no room`));
    // Only a difference is drawn, so that the focus stays.
    const hash = JSON.stringify([this.found, more]);
    if (hash === this.hash) return null;
    this.hash = hash;
    const { activeElement } = document;
    const focused = this.list.contains(activeElement) ? activeElement.dataset.problem : null;
    this.list.replaceChildren(...lines);
    if (focused !== null) (this.list.querySelector(`[data-problem="${focused}"]`) ?? this.list).focus();
    return null;
  }
}

// The lines of `subord errors`.
function linesOf(found) {
  const { problems, older = [], older_nodes: olderNodes = 0, coverage } = found;
  const lines = problems.map(({ kind, text, addresses, nodes, since_s: agoS }) => {
    const ago = typeof agoS === "number" ? ` (last ${duration(agoS)} ago)` : "";
    return { kind, text: `${text}${ago}`, addresses, nodes };
  });
  lines.push(...silentLines(found, coverage));
  if (olderNodes) {
    const text = "older release: its problems are not known";
    lines.push({ kind: "older", text, addresses: older, nodes: olderNodes });
  }
  return lines;
}

// The nodes without an answer, by cause; a root of an older release tells none.
function silentLines({ silent = [], silent_nodes: nodes = 0 }, coverage) {
  const unnamed = nodes - silent.length;
  if (nodes && !coverage) return [{ kind: "silent", text: "no answer", addresses: silent, nodes }];
  return (coverage?.missing ?? []).flatMap(({ cause, count: all, addresses }) => {
    const named = addresses.filter((each) => silent.includes(each));
    const more = Math.min(unnamed, all - addresses.length);
    const line = { kind: "silent", text: `no answer (${cause})`, addresses: named, nodes: named.length + more };
    return named.length ? [line] : [];
  });
}

function lineElement({ kind, text, addresses, nodes }, number) {
  const mark = URGENT.has(kind) ? "is-down" : kind === "silent" ? "is-stale" : "is-guest";
  const name = inShort(addresses, nodes);
  const where = element("button", { type: "button", class: "link", "data-problem": number }, name);
  return element("li", { class: mark }, where, " ", element("span", {}, text));
}
