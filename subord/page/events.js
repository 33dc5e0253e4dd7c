// What happened, newest first.
//
// Intuition: the roll of paper in a tide gauge: it writes by itself, one may hold it to read, and the old end is cut
// off, so that it never fills the room.

import { element, link, onceAFrame } from "./words.js";

export const KEPT_MAX = 500;

const SENTENCES = {
  joined: (change) => `joined${led(change)}`,
  found: (change) => `was found${led(change)}`,
  returned: (change) => `is back${led(change)}`,
  restarted: (change) => `was started anew${led(change)}`,
  moved: (change) => `moved${from(change)}${change.leader ? ` to ${change.leader}` : ""}${asGuest(change)}`,
  missing: (change) => `is missing${change.old ? `, was led by ${change.old}` : ""}`,
  left: (change) => `left${change.old ? `, was led by ${change.old}` : ""}`,
  root: (change) => `is the root${change.old ? `, was led by ${change.old}` : ""}`,
};

function led(change) {
  return change.leader ? `, led by ${change.leader}${asGuest(change)}` : "";
}

function from(change) {
  return change.old ? ` from ${change.old}` : "";
}

function asGuest(change) {
  return change.place === "guest" ? ", as a guest" : "";
}

export class Events {
  // `goTo(key)`: the reader wants to see a node; `isWithin(address, branch)`: whether it stands below it.
  constructor({ goTo, isWithin }) {
    this.isWithin = isWithin;
    this.kept = []; // newest first
    this.known = new Set();
    this.lost = false; // we were told that some were missed
    this.said = null; // why the root's events cannot be had just now
    this.branch = null;
    this.held = 0; // came while the list was held
    this.paused = false;
    this.drawSoon = onceAFrame(() => this.draw());
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

  // False: we knew it already; after an interruption the daemon tells the last ones again.
  add(change) {
    const name = nameOf(change);
    if (this.known.has(name)) return false;
    this.known.add(name);
    // The clocks and numbers of an old and a new root do not compare; what is told later happened later.
    this.kept.unshift({ change, name, line: null });
    for (const { name: old } of this.kept.splice(KEPT_MAX)) this.known.delete(old);
    if (this.paused) this.held++;
    this.drawSoon();
    return true;
  }

  missed() {
    this.lost = true;
    this.drawSoon();
  }

  noted(sentence) {
    this.said = sentence;
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
    this.held = 0;
    this.button.setAttribute("aria-pressed", String(paused));
    this.button.textContent = paused ? "Go on" : "Pause";
    this.draw();
  }

  draw() {
    if (!this.paused) this._drawList();
    const notes = [];
    if (this.paused) notes.push(`Held; ${this.held} new.`);
    if (this.said) notes.push(`${this.said}.`);
    if (this.lost) notes.push("Some events were missed; the tree is right all the same.");
    this.note.textContent = notes.join(" ");
    this.note.hidden = !notes.length;
  }

  _drawList() {
    const branch = this.only.checked ? this.branch : null;
    const shown = this.kept.filter(({ change }) => branch === null || this._concerns(change, branch));
    const wanted = shown.map((entry) => (entry.line ??= lineOf(entry.change)));
    const keep = new Set(wanted);
    for (const line of [...this.list.children]) if (!keep.has(line)) line.remove();
    // New ones are at the top: from the end, nothing has to be moved.
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
