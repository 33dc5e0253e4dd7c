// The list of events, newest first, folded where many are alike.
//
// At most KEPT_MAX events are kept. While the list is paused, new events are counted and not drawn.

import { count, element, link, moment, oncePerFrame } from "./dom.js";
import { grouped, kindOf, sentenceOf, sentenceOfMany } from "./groups.js";

const KEPT_MAX = 500;
const TOGETHER_MS = 10_000; // events that arrive within this are in the order of their times

export class Events {
  // `goTo(key)` shows a node; `isWithin(address, branch)`: whether a node is the branch's top or below it.
  constructor({ goTo, isWithin }) {
    this.isWithin = isWithin;
    this.kept = []; // oldest first
    this.known = new Set();
    this.groups = new Map(); // the name of its first event -> {line, text}
    this.hasMissed = false; // the daemon reported missed events
    this.rootNote = null; // why the root's events are not available
    this.branch = null;
    this.heldCount = 0; // events since the pause
    this.paused = false;
    this.drawSoon = oncePerFrame(() => this.draw());
    const part = (name) => document.getElementById(name);
    Object.assign(this, { list: part("event-list"), note: part("events-note"), empty: part("events-empty") });
    Object.assign(this, { only: part("only-branch"), button: part("pause") });
    this.button.addEventListener("click", () => this._pause(!this.paused));
    this.only.addEventListener("change", () => this.draw());
    this.list.addEventListener("click", (event) => {
      const link = event.target.closest("[data-go]");
      if (link) goTo(link.dataset.go);
    });
  }

  // False: the event is known; after an interruption the daemon sends the last ones again.
  add(change) {
    const name = nameOf(change);
    if (this.known.has(name)) return false;
    this.known.add(name);
    const entry = { change, name, ms: Date.parse(change.time) || 0, arrived: Date.now() };
    // Clocks and numbers of different roots are not comparable, so an event never goes before one of long ago.
    let at = this.kept.length;
    while (at > 0 && this.kept[at - 1].ms > entry.ms && entry.arrived - this.kept[at - 1].arrived < TOGETHER_MS) at--;
    this.kept.splice(at, 0, entry);
    for (const { name: old } of this.kept.splice(0, this.kept.length - KEPT_MAX)) this.known.delete(old);
    if (this.paused) this.heldCount++;
    this.drawSoon();
    return true;
  }

  missed() {
    this.hasMissed = true;
    this.drawSoon();
  }

  setNote(sentence) {
    this.rootNote = sentence;
    this.drawSoon();
  }

  choose(branch) {
    this.branch = branch;
    this.only.disabled = branch === null;
    if (branch === null) this.only.checked = false;
    this.draw();
  }

  _pause(paused) {
    this.paused = paused;
    this.heldCount = 0;
    this.button.setAttribute("aria-pressed", String(paused));
    this.button.textContent = paused ? "Continue" : "Pause";
    this.draw();
  }

  draw() {
    if (!this.paused) this._drawList();
    const notes = [];
    if (this.paused) notes.push(`Paused; ${this.heldCount} new.`);
    if (this.rootNote) notes.push(`${this.rootNote}.`);
    if (this.hasMissed) notes.push("Some events were missed; the tree is not affected.");
    this.note.textContent = notes.join(" ");
    this.note.hidden = !notes.length;
  }

  _drawList() {
    const branch = this.only.checked ? this.branch : null;
    const shown = this.kept.filter(({ change }) => branch === null || this._concerns(change, branch));
    const groups = new Map();
    for (const group of grouped(shown)) {
      const { name } = group.events[0];
      const size = group.events.length;
      const before = this.groups.get(name);
      const isOpen = before?.line.firstElementChild.open ?? false;
      groups.set(name, before?.size === size ? before : { size, line: lineOf(group, isOpen) });
    }
    this.groups = groups;
    const wanted = [...groups.values()].map(({ line }) => line);
    const keep = new Set(wanted);
    for (const line of [...this.list.children]) if (!keep.has(line)) line.remove();
    // New lines are at the top; inserting from the end moves no line.
    let next = null;
    for (const line of wanted.reverse()) {
      if (line.nextElementSibling !== next || line.parentElement === null) this.list.insertBefore(line, next);
      next = line;
    }
    this.empty.hidden = wanted.length > 0;
    this.empty.textContent = branch === null ? "Nothing has happened yet." : "Nothing has happened in this branch.";
  }

  _concerns(change, branch) {
    const nodes = [change.address, change.leader, change.former_leader];
    return nodes.some((each) => each === branch || this.isWithin(each, branch));
  }
}

function nameOf(change) {
  return [change.time, change.number, change.kind, change.address].join(" ");
}

function timeOf(ms) {
  const text = moment(ms);
  return element("time", text ? { datetime: new Date(ms).toISOString() } : {}, text);
}

// A group of several opens to its single events.
function lineOf(group, isOpen) {
  if (group.events.length === 1) return singleLine(group.events[0]);
  const words = element("span", {}, `${count(group.addresses.size, "node")} ${sentenceOfMany(group)}`);
  const summary = element("summary", {}, timeOf(group.lastMs), " ", words);
  const lines = [...group.events].reverse().map(singleLine);
  const body = element("details", { open: isOpen }, summary, element("ol", {}, ...lines));
  return element("li", { class: `kind-${group.kind}` }, body);
}

function singleLine({ change, ms }) {
  const words = [timeOf(ms), " ", link(change.address), " ", element("span", {}, sentenceOf(change))];
  return element("li", { class: `kind-${kindOf(change)}` }, ...words);
}
