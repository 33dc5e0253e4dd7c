// Whom an answer covers, in words.

import { count, duration } from "./dom.js";
import { inShort } from "./fold.js";

// "498 of 500 nodes reported, the oldest 8 s ago; missing: 10.0.0.7 stale, 10.0.1.4 no report."
export function coverageOf({ asked, told, complete, missing, oldest_ms: oldestMs, note }, did) {
  const age = oldestMs >= 1000 ? `, the oldest ${duration(oldestMs / 1000)} ago` : "";
  const causes = missing.map(({ cause, count: all, addresses }) => {
    return addresses.length ? `${inShort(addresses, all)} ${cause}` : `${count(all, "node")} ${cause}`;
  });
  const unknown = note || (complete || causes.length ? "" : "not all members are known");
  const lacks = [unknown, causes.length ? `missing: ${causes.join(", ")}` : ""].filter(Boolean);
  const rest = lacks.map((each) => `; ${each}`).join("");
  return `${told.toLocaleString("en")} of ${count(asked, "node")} ${did}${age}${rest}.`;
}
