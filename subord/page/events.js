// The list of events, newest first.
//
// At most KEPT_MAX events are kept. While the list is paused, new events are counted and not drawn.

import { element, link, oncePerFrame } from "./dom.js";

export const KEPT_MAX = 500;

const SENTENCES = {
  joined: (change) => `joined${ledBy(change)}`,
  found: (change) => `was found${ledBy(change)}`,
  returned: (change) => `is back${ledBy(change)}`,
  restarted: (change) => `was restarted${ledBy(change)}`,
  moved: (change) => `moved${from(change)}${change.leader ? ` to ${change.leader}` : ""}${asGuest(change)}`,
  missing: (change) => `is missing${change.old ? `, was led by ${change.old}` : ""}`,
  left: (change) => `left${change.old ? `, was led by ${change.old}` : ""}`,
  root: (change) => `is the root${change.old ? `, was led by ${change.old}` : ""}`,
};

function ledBy(change) {
  return change.leader ? `, led by ${change.leader}${asGuest(change)}` : "";
}

function from(change) {
  return change.old ? ` from ${change.old}` : "";
}

function asGuest(change) {
  return change.place === "guest" ? ", as a guest" : "";
}

export class Events {
  // `goTo(key)` shows a node; `isWithin(address, branch)`: whether a node is the branch's top or below it.
  constructor({ goTo, isWithin }) {
    this.isWithin = isWithin;
    this.kept = []; // newest first
    this.known = new Set();
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
    // Clocks and numbers of different roots are not comparable, so the order of arrival counts.
    this.kept.unshift({ change, name, line: null });
    for (const { name: old } of this.kept.splice(KEPT_MAX)) this.known.delete(old);
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
    if (this.only.checked) this.draw();
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
    const wanted = shown.map((entry) => (entry.line ??= lineOf(entry.change)));
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
    return [change.address, change.leader, change.old].some((each) => each === branch || this.isWithin(each, branch));
  }
}

function nameOf(change) {
  return [change.wall, change.number, change.kind, change.address].join(" ");
}

function lineOf(change) {
  const at = new Date(Number(change.wall) * 1000);
  const isTime = Number.isFinite(at.getTime());
  const time = element("time", isTime ? { datetime: at.toISOString(), title: at.toLocaleString() } : {});
  time.textContent = isTime ? at.toLocaleTimeString() : "";
  const kind = Object.hasOwn(SENTENCES, change.kind) ? change.kind : "other";
  const sentence = kind === "other" ? String(change.kind) : SENTENCES[kind](change);
  const words = [time, " ", link(change.address), " ", element("span", {}, sentence)];
  return element("li", { class: `kind-${kind}` }, ...words);
}
