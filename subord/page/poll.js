// Asks the daemon for one document again and again, while it is visible. There is never more than one question.

import { ask, backoffS } from "./api.js";

export class Poller {
  // `pollMs(tookMs)`: the pause after an answer; after failures it grows. `restMs`: between two questions at least.
  // `take(found, at)` shows an answer and returns what is wrong with it, or null; `fail(sentence)`: there is none.
  constructor({ path, pollMs, restMs = 0, take, fail }) {
    Object.assign(this, { path, pollMs, restMs, take, fail });
    this.visible = true;
    this.dueAt = Infinity;
    this.timer = null;
    this.asking = false;
    this.askedAt = -Infinity; // the end of the last question, which lasted `tookMs`
    this.tookMs = 0;
    this.failures = 0;
    document.addEventListener("visibilitychange", () => this.plan(0));
  }

  show(visible) {
    this.visible = visible;
    this.plan(0);
  }

  // In `ms`, or sooner if that is planned already.
  plan(ms) {
    const now = performance.now();
    const at = Math.max(now + ms, this.askedAt + this.restMs);
    if (document.hidden || !this.visible) {
      clearTimeout(this.timer);
      this.dueAt = Infinity;
    } else if (at < this.dueAt) {
      this.dueAt = at;
      clearTimeout(this.timer);
      if (!this.asking) this.timer = setTimeout(() => this._ask(), at - now);
    }
  }

  async _ask() {
    this.asking = true;
    this.dueAt = Infinity;
    const began = performance.now();
    const { document: found, error } = await ask(this.path);
    this.askedAt = performance.now();
    this.tookMs = this.askedAt - began;
    this.asking = false;
    const broken = error ?? this.take(found, Date.now());
    this.failures = broken ? this.failures + 1 : 0;
    if (broken) this.fail(broken);
    const next = this.dueAt - performance.now(); // there may have been a change in the meantime
    this.dueAt = Infinity;
    const pauseMs = broken ? backoffS(this.failures) * 1000 : this.pollMs(this.tookMs);
    this.plan(broken ? pauseMs : Math.min(next, pauseMs));
  }
}
