// Virtual machines, while no node is chosen: the last round of the node that has the queues, and how full each server
// is. Nothing is shown while no operator has published a plan.

import { count, duration, fill, sentence, setText } from "./dom.js";
import { inShort } from "./fold.js";
import { Panel } from "./panel.js";
import { gib, Servers } from "./servers.js";

const NOTES_MAX = 6;
const WHYS_MAX = 3;

export const machines = new Panel("machines", "v1/machines/shown", {
  has: "the queues",
  wrong({ servers: all, types }) {
    return Array.isArray(all) && Array.isArray(types) ? null : "the answer has no servers";
  },
  off({ version }) {
    part("-figures").hidden = true;
    fill(part("-why"), []);
    setText(part("-summary"), `The plan was ended by version ${version}: machines stay as they are.`);
  },
  draw,
  notes: notesOf,
});
const part = (name) => machines.part(name);
const servers = new Servers(part("-key"), part("-rows"), part("-order"));

function draw(found) {
  setText(part("-summary"), summaryOf(found));
  fill(part("-why"), whysOf(found));
  part("-figures").hidden = !found.figures;
  if (!found.figures) return;
  setText(part("-told"), toldOf(found));
  servers.show(found);
}

// -- in words -----------------------------------------------------------------------------------------------------

// What needs an operator.
function notesOf({ state, text, detail, fault, hindrance, notes, notes_left_out: more, servers }) {
  const found = [];
  if (state !== "manages") found.push(sentence(detail ? `${text}: ${detail}` : text));
  if (fault) found.push(sentence(fault));
  if (hindrance) found.push(sentence(`Nothing is decided now: ${hindrance}`));
  const faults = [...new Set(servers.map((each) => each.fault))].filter(Boolean);
  for (const why of faults.slice(0, NOTES_MAX)) {
    const names = servers.filter((each) => each.fault === why).map((each) => each.name);
    found.push(sentence(`${inShort(names)} does not serve: ${why}`));
  }
  const rest = faults.length - NOTES_MAX;
  if (rest > 0) found.push(`${count(rest, "further reason")} why servers do not serve.`);
  found.push(...notes.filter(Boolean).map(sentence));
  if (more) found.push(`${count(more, "further note")}, which subord machines status shows.`);
  return found;
}

function summaryOf({ address, state, figures, trial }) {
  const where = `${address} has the queues`;
  const only = trial ? " A trial: nothing is done." : "";
  if (state === null) return `${where}.`;
  if (!figures) return `${where}; its queues were not read yet.${only}`;
  const { round, age_s: age, waiting, unmet, running } = figures;
  const wait = `${count(waiting, "job")} ${waiting === 1 ? "waits" : "wait"}`;
  const nothing = unmet ? `, ${unmet.toLocaleString("en")} of them ${unmet === 1 ? "gets" : "get"} nothing now` : "";
  const run = `${running.toLocaleString("en")} ${running === 1 ? "runs" : "run"}`;
  return `Round ${round.toLocaleString("en")}, ${duration(age)} ago: ${wait}${nothing}; ${run}. ${where}.${only}`;
}

function whysOf({ whys, whys_left_out: more }) {
  const each = whys.slice(0, WHYS_MAX).map(({ why, jobs }) => sentence(`${count(jobs, "job")}: ${why}`));
  const others = whys.slice(WHYS_MAX).reduce((sum, { jobs }) => sum + jobs, more);
  return others ? [...each, `${count(others, "job")}: for other reasons.`] : each;
}

// Which servers the bars are of.
function toldOf({ figures, servers, servers_left_out: left }) {
  const { servers: all, unreachable, overbooked, drained, used, have } = figures;
  const tell = (number, word) => (number ? `, ${number.toLocaleString("en")} ${word}` : "");
  const serve = `${(all - unreachable).toLocaleString("en")} of ${count(all, "server")} serve`;
  const kinds = `${tell(overbooked, "overbooked")}${tell(drained, "drained")}`;
  const old = unreachable ? `, ${unreachable.toLocaleString("en")} as last seen` : "";
  const sums = `${used.cores.toLocaleString("en")} of ${have.cores.toLocaleString("en")} cores, `;
  const memory = `${gib(used.memory_mb)} of ${gib(have.memory_mb)} GiB used${old}`;
  const rest = left ? ` Bars of ${count(servers.length, "server")}; ${left.toLocaleString("en")} are not shown.` : "";
  return `${serve}${kinds}; ${sums}${memory}.${rest}`;
}
