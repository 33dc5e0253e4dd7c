// When to ask for the tree: after events, rarely without events, never while the page is hidden.
//
// The slower the answers, the longer the intervals. There is never more than one request for the tree at a time.

import { Stream } from "./api.js";
import { duration } from "./dom.js";
import { isTree } from "./forest.js";
import { Poller } from "./poll.js";

const AFTER_EVENT_MS = 300; // events that come together cause one request
const POLL_MS_MIN = 10_000;
const POLL_MS_MAX = 60_000;
const POLL_FACTOR = 40; // an answer that takes t is asked for every 40 t at most without events,
const EVENT_FACTOR = 5; // and every 5 t with many events

export class Watch {
  // `onTree(tree, at)`: the arguments of Forest. `onChange(change)` is true for a new event. `onNote`,
  // `onMissed`: see api.js. `onState()`: `state` may have changed.
  constructor({ onTree, onChange, onNote, onMissed, onState }) {
    this.onTree = onTree;
    this.onState = onState;
    this.onChange = onChange;
    this.error = null;
    this.seenAt = null;
    this.streaming = null; // unknown
    this.poller = new Poller({
      path: "v1/tree?form=rows",
      pollMs: (tookMs) => Math.min(POLL_MS_MAX, Math.max(POLL_MS_MIN, POLL_FACTOR * tookMs)),
      take: (tree, at) => this._take(tree, at),
      fail: (error) => this._set(error),
    });
    this.stream = new Stream("v1/events", {
      onChange: (change) => this._onChange(change),
      onNote,
      onMissed: () => {
        onMissed();
        this.poller.plan(AFTER_EVENT_MS);
      },
      onState: (open) => {
        // If the stream broke, the daemon may have been away, and the tree may have changed.
        if (this.streaming === !open) this.poller.plan(AFTER_EVENT_MS);
        this.streaming = open;
        onState();
      },
    });
  }

  start() {
    document.addEventListener("visibilitychange", () => this._onVisibility());
    addEventListener("online", () => this.poller.plan(0));
    this._onVisibility();
  }

  // A browser has few connections per host, and a hidden page needs none.
  _onVisibility() {
    if (document.hidden) {
      this.stream.close();
      this.streaming = null;
    } else {
      this.stream.open();
      this.poller.plan(0);
    }
  }

  _onChange(change) {
    if (!this.onChange(change)) return;
    const { askedAt, tookMs } = this.poller;
    this.poller.plan(Math.max(AFTER_EVENT_MS, askedAt + EVENT_FACTOR * tookMs - performance.now()));
  }

  _take(tree, at) {
    if (!isTree(tree)) return "the answer is no tree";
    this.seenAt = at;
    this.onTree(tree, at);
    this._set(null);
    return null;
  }

  _set(error) {
    this.error = error;
    this.onState();
  }

  // The time to which ages are counted, in ms: without a connection, that of the last tree.
  now() {
    return this.error && this.seenAt !== null ? this.seenAt : Date.now();
  }

  // The state of the connection: a word for styles, a sentence, and the age of the tree.
  get state() {
    const ageS = this.seenAt === null ? null : (Date.now() - this.seenAt) / 1000;
    const age = ageS === null || ageS < 3 ? "" : `last update ${duration(ageS)} ago`;
    if (this.error) return { name: "lost", text: `${this.error}: trying again`, age };
    if (ageS === null) return { name: "asking", text: "asking", age };
    if (this.streaming === false) return { name: "polling", text: "no events: trying again", age };
    return { name: "live", text: "live", age };
  }
}
