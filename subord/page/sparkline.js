// The changes of the last hour: one bar per minute. Before the first event that is known, the line is broken.
//
// Events of nodes that were only found, as by a new root, are no changes.

import { count, moment, oncePerFrame, setText } from "./dom.js";

const MINUTES = 60;
const MINUTE_MS = 60_000;
const HEIGHT = 20; // of the drawing; one minute is 2 wide
const SCALE_MIN = 4; // changes in a bar of full height, at least
const SVG = "http://www.w3.org/2000/svg";

export class Sparkline {
  constructor(place, caption, scale) {
    Object.assign(this, { place, caption, scale });
    this.minutes = new Map(); // minute since 1970 -> {all, missing}
    this.knownFrom = Infinity;
    this.drawSoon = oncePerFrame(() => this.draw());
    this.drawn = "";
  }

  add(change) {
    const ms = Date.parse(change.time);
    if (!Number.isFinite(ms)) return;
    this.knownFrom = Math.min(this.knownFrom, ms);
    if (change.kind !== "found") {
      // The root's clock may be ahead of the browser's.
      const minute = Math.floor(Math.min(ms, Date.now()) / MINUTE_MS);
      const of = this.minutes.get(minute) ?? { all: 0, missing: 0 };
      of.all++;
      if (change.kind === "missing") of.missing++;
      this.minutes.set(minute, of);
    }
    this.drawSoon();
  }

  // `now` (ms) is the right end.
  draw(now = Date.now()) {
    const last = Math.floor(now / MINUTE_MS);
    for (const minute of this.minutes.keys()) if (minute <= last - 2 * MINUTES) this.minutes.delete(minute);
    const bars = [];
    for (let minute = last - MINUTES + 1; minute <= last; minute++) {
      bars.push(this.minutes.get(minute) ?? { all: 0, missing: 0 });
    }
    const sum = (name) => bars.reduce((total, bar) => total + bar[name], 0);
    const unknown = Math.min(MINUTES, Math.max(0, Math.floor(this.knownFrom / MINUTE_MS) - last + MINUTES - 1));
    const from = unknown > 0 ? `since ${moment(this.knownFrom).slice(0, -3)}` : "in the last hour";
    const away = sum("missing") ? `, ${sum("missing")} missing` : "";
    const text = `${count(sum("all"), "change")} ${from}${away}`;
    setText(this.caption, this.knownFrom === Infinity ? "No change is known yet" : text);
    const highest = Math.max(...bars.map(({ all }) => all));
    const most = Math.max(SCALE_MIN, highest);
    setText(this.scale, highest ? `at most ${highest.toLocaleString("en")} a minute` : "");
    const drawn = JSON.stringify([bars, unknown]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const parts = bars.flatMap(({ all, missing }, at) => [
      ...bar("all", at, all / most),
      ...bar("missing", at, missing / most),
    ]);
    this.place.replaceChildren(...line("unknown", 0, unknown), ...line("known", unknown, MINUTES), ...parts);
  }
}

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function bar(kind, at, share) {
  if (!share) return [];
  const height = Math.max(1, share * (HEIGHT - 1));
  return [drawn("rect", { class: kind, x: at * 2, y: HEIGHT - 1 - height, width: 1.5, height })];
}

function line(kind, from, until) {
  return until > from ? [drawn("path", { class: kind, d: `M${from * 2} ${HEIGHT - 0.5}H${until * 2}` })] : [];
}
