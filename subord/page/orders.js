// The orders to nodes that pass the asked daemon, while no node is chosen: those under way, else the last one that
// ended, each with the nodes that it covers. The daemon answers from memory, so the page may ask often.

import { count, duration, element, setText } from "./dom.js";
import { Poller } from "./poll.js";

const POLL_MS = 2_000;
const SHOWN_MAX = 8;
const summary = document.getElementById("orders-summary");
const list = document.getElementById("order-list");

export const orders = new Poller({
  path: "v1/orders",
  pollMs: () => POLL_MS,
  take,
  fail(error) {
    setText(summary, `The orders are not known now: ${error}.`);
    list.replaceChildren();
  },
});

function take(found) {
  if (!Array.isArray(found?.orders) || !Array.isArray(found.ended)) return "the answer is no list";
  const held = found.orders;
  const [last] = found.ended;
  const past = last ? ` The last one, ${duration(last.since_s)} ago: ${words(last)}.` : "";
  setText(summary, held.length ? `${count(held.length, "order")} under way.` : `None under way.${past}`);
  const lines = held.slice(0, SHOWN_MAX).map((each) => {
    return element("li", {}, `${words(each)}; ends within ${duration(each.left_s)}`);
  });
  const more = held.length - lines.length;
  if (more > 0) lines.push(element("li", { class: "quiet" }, `and ${count(more, "order")} more`));
  list.replaceChildren(...lines);
  return null;
}

// `errors from 10.0.0.5: 3 of 11 answered, 1 missing`.
function words({ service, issuer, own, asked, told, missing }) {
  const from = own ? "" : ` from ${issuer ?? "a node that is not known"}`;
  if (!asked) return `${service}${from}: no answer yet`;
  return `${service}${from}: ${told} of ${count(asked, "node")} answered${missing ? `, ${missing} missing` : ""}`;
}
