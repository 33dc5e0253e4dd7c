// The orders to nodes that pass the asked daemon, while no node is chosen: those under way, else the last one that
// ended, each with the nodes that it covers.
//
// The daemon answers from memory, so the page may ask often; it does not while the list is not visible.

import { ask, backoffS } from "./api.js";
import { count, duration, element, setText } from "./dom.js";

const POLL_MS = 2_000;
const SHOWN_MAX = 8;

export class Orders {
  constructor() {
    this.visible = true;
    this.timer = null;
    this.asking = false;
    this.failures = 0;
    this.summary = document.getElementById("orders-summary");
    this.list = document.getElementById("order-list");
    document.addEventListener("visibilitychange", () => this._plan(0));
  }

  start() {
    this._plan(0);
  }

  show(visible) {
    this.visible = visible;
    this._plan(0);
  }

  _plan(ms) {
    clearTimeout(this.timer);
    if (!document.hidden && this.visible && !this.asking) this.timer = setTimeout(() => this._ask(), ms);
  }

  async _ask() {
    this.asking = true;
    const { document: found, error } = await ask("v1/orders");
    this.asking = false;
    const isList = Array.isArray(found?.orders) && Array.isArray(found.ended);
    const broken = error ?? (isList ? null : "the answer is no list");
    this.failures = broken ? this.failures + 1 : 0;
    if (broken) this._fail(broken);
    else this._draw(found);
    this._plan(broken ? backoffS(this.failures) * 1000 : POLL_MS);
  }

  _fail(error) {
    setText(this.summary, `The orders are not known now: ${error}.`);
    this.list.replaceChildren();
  }

  _draw({ orders, ended }) {
    const [last] = ended;
    const past = last ? ` The last one, ${duration(last.since_s)} ago: ${words(last)}.` : "";
    setText(this.summary, orders.length ? `${count(orders.length, "order")} under way.` : `None under way.${past}`);
    const lines = orders.slice(0, SHOWN_MAX).map((each) => {
      const left = `; ends within ${duration(each.left_s)}`;
      return element("li", {}, `${words(each)}${left}`);
    });
    const more = orders.length - lines.length;
    if (more > 0) lines.push(element("li", { class: "quiet" }, `and ${count(more, "order")} more`));
    this.list.replaceChildren(...lines);
  }
}

// `errors from 10.0.0.5: 3 of 11 answered, 1 missing`.
function words({ service, issuer, own, asked, told, missing }) {
  const from = own ? "" : ` from ${issuer ?? "a node that is not known"}`;
  if (!asked) return `${service}${from}: no answer yet`;
  return `${service}${from}: ${told} of ${count(asked, "node")} answered${missing ? `, ${missing} missing` : ""}`;
}
