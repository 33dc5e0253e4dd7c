// When to look: after events, seldom when nothing happens, not at all when nobody sees the page.
//
// Intuition: a nurse on the ward. She comes when the bell rings, makes her round now and then, and the more work a
// round is the more seldom she makes it. Never two rounds at once.

import { isTree } from "./forest.js";
import { ask, patienceS, Stream } from "./talk.js";
import { duration } from "./words.js";

const AFTER_EVENT_MS = 300; // several events that come together are one look
const ROUND_MS_MIN = 10_000;
const ROUND_MS_MAX = 60_000;
const SHARE_ROUND = 40; // what takes t is done every 40 t at most when nothing happens,
const SHARE_EVENT = 5; // and every 5 t in a storm
const REMEMBERED = new Set(["missing", "left", "joined", "returned"]); // after these, others are remembered

export class Watch {
  // `saw(tree, members, at)`: as the Forest wants them. `heard(change)` is true for news. `noted`, `missed`: talk.js.
  // `turned()`: `state` may be another.
  constructor({ saw, heard, noted, missed, turned }) {
    this.saw = saw;
    this.turned = turned;
    this.heard = heard;
    this.members = null;
    this.membersDue = true;
    this.looking = false;
    this.dueAt = Infinity;
    this.timer = null;
    this.tookMs = 0; // the last look, which ended at `lookedAt`
    this.lookedAt = 0;
    this.failures = 0;
    this.error = null;
    this.seenAt = null;
    this.streaming = null; // not known yet
    this.stream = new Stream("v1/events", {
      heard: (change) => this._heard(change),
      noted,
      missed: () => {
        missed();
        this._lookIn(AFTER_EVENT_MS);
      },
      turned: (open) => {
        // What happened to the stream may have happened to the daemon, and in between anything to the tree.
        if (this.streaming === !open) this._lookIn(AFTER_EVENT_MS);
        this.streaming = open;
        turned();
      },
    });
  }

  start() {
    document.addEventListener("visibilitychange", () => this._turn());
    addEventListener("online", () => this._lookIn(0));
    this._turn();
  }

  // A browser has few connections for one host, and a page that nobody sees needs none of them.
  _turn() {
    if (document.hidden) {
      this.stream.close();
      this.streaming = null;
      clearTimeout(this.timer);
      this.dueAt = Infinity;
    } else {
      this.membersDue = true;
      this.stream.open();
      this._lookIn(0);
    }
  }

  _heard(change) {
    if (REMEMBERED.has(change.kind)) this.membersDue = true;
    if (!this.heard(change)) return;
    const restMs = this.lookedAt + SHARE_EVENT * this.tookMs - performance.now();
    this._lookIn(Math.max(AFTER_EVENT_MS, restMs));
  }

  // Then, or sooner if that was planned already.
  _lookIn(ms) {
    const at = performance.now() + ms;
    if (at >= this.dueAt) return;
    this.dueAt = at;
    clearTimeout(this.timer);
    if (!this.looking) this.timer = setTimeout(() => this._look(), ms);
  }

  async _look() {
    this.looking = true;
    this.dueAt = Infinity;
    const began = performance.now();
    const membersToo = this.membersDue || Date.now() - (this.members?.at ?? 0) > ROUND_MS_MIN / 2;
    const [tree, members] = await Promise.all([ask("v1/tree?form=rows"), membersToo ? ask("v1/members") : null]);
    const at = Date.now();
    this.lookedAt = performance.now();
    this.tookMs = this.lookedAt - began;
    if (members?.document) {
      this.members = { document: members.document, at };
      this.membersDue = false;
    }
    this.error = tree.error ?? this._show(tree.document, at);
    this.failures = this.error ? this.failures + 1 : 0;
    this.looking = false;
    this.turned();
    const next = this.dueAt; // an event may have come in the meantime
    this.dueAt = Infinity;
    if (document.hidden) return;
    if (next < Infinity && !this.error) this._lookIn(Math.max(0, next - performance.now()));
    else this._lookIn(this.error ? patienceS(this.failures) * 1000 : this._roundMs());
  }

  _roundMs() {
    return Math.min(ROUND_MS_MAX, Math.max(ROUND_MS_MIN, SHARE_ROUND * this.tookMs));
  }

  _show(tree, at) {
    if (!isTree(tree)) return "the answer is no tree";
    this.seenAt = at;
    this.saw(tree, this.members, at);
    return null;
  }

  // How it stands: a word for styles, a sentence, and how old what is shown is.
  get state() {
    const ageS = this.seenAt === null ? null : (Date.now() - this.seenAt) / 1000;
    const age = ageS === null || ageS < 3 ? "" : `last update ${duration(ageS)} ago`;
    if (this.error) return { name: "lost", text: `${this.error}: trying again`, age };
    if (ageS === null) return { name: "asking", text: "asking", age };
    if (this.streaming === false) return { name: "rounds", text: "no events: trying again", age };
    return { name: "live", text: "live", age };
  }
}
