// Events in words: one line for each, and one for many of the same kind at about the same time.
//
// Input: events in the order of their time. Output: groups, newest first. An event joins a group within JOIN_MS of
// the group's last event and SPAN_MS of its first one. Moves must also share the former or the new leader.

import { beside, inShort } from "./fold.js";

const JOIN_MS = 10_000;
const SPAN_MS = 60_000;

const ONE = {
  joined: (change) => `joined${ledBy(change)}`,
  found: (change) => `was found${ledBy(change)}`,
  returned: (change) => `is back${ledBy(change)}`,
  restarted: (change) => `was restarted${ledBy(change)}`,
  moved: (change) => `moved${from(change)}${change.leader ? ` to ${change.leader}` : ""}${asGuest(change)}`,
  missing: (change) => `is missing${wasLed(change)}`,
  left: (change) => `left${wasLed(change)}`,
  root: (change) => `is the root${wasLed(change)}`,
  forgotten: (change) => `was forgotten${ordered(change)}`,
  maintained: (change) => `is under maintenance${ordered(change)}`,
  resumed: (change) => `is no longer under maintenance${ordered(change)}`,
};

const MANY = {
  joined: (group) => `joined${ledBy(group)}`,
  found: (group) => `were found${ledBy(group)}`,
  returned: (group) => `are back${ledBy(group)}`,
  restarted: (group) => `were restarted${ledBy(group)}`,
  moved: (group) => `moved${from(group)}${to(group)}${asGuest(group)}`,
  missing: (group) => `are missing${wasLed(group)}`,
  left: (group) => `left${wasLed(group)}`,
  forgotten: (group) => `were forgotten${ordered(group)}`,
  maintained: (group) => `are under maintenance${ordered(group)}`,
  resumed: (group) => `are no longer under maintenance${ordered(group)}`,
};

const NAMELESS = new Set(["found", "moved"]); // whose sentence in the plural does not name the nodes

function ledBy({ leader, place, leaders }) {
  return leader ? `, led by ${leader}${asGuest({ place, leaders })}` : "";
}

function wasLed({ former_leader: old }) {
  return old ? `, was led by ${old}` : "";
}

function ordered({ reason, by }) {
  return (reason ? `, "${reason}"` : "") + (by ? ` (${by})` : "");
}

function from({ former_leader: old }) {
  return old ? ` from ${old}` : "";
}

function to({ leader, leaders, former_leader: old }) {
  if (leader) return ` to ${old ? beside(leader, old) : leader}`;
  return leaders > 1 ? ` to ${leaders} others` : "";
}

function asGuest({ place, leaders }) {
  if (place !== "guest") return "";
  return leaders ? ", as guests" : ", as a guest";
}

export function kindOf(change) {
  return Object.hasOwn(ONE, change.kind) ? change.kind : "other";
}

export function sentenceOf(change) {
  return Object.hasOwn(ONE, change.kind) ? ONE[change.kind](change) : String(change.kind);
}

const SHARED = ["leader", "former_leader", "place", "reason", "by"];

// "moved from 10.0.0.24 to .25", after "6 nodes"; only what is the same for all of them is named.
export function sentenceOfMany({ kind, events }) {
  const same = (name) => {
    const [first] = events;
    return events.every(({ change }) => change[name] === first.change[name]) ? first.change[name] : null;
  };
  const leaders = new Set(events.map(({ change }) => change.leader)).size;
  const sentence = MANY[kind]({ ...Object.fromEntries(SHARED.map((name) => [name, same(name)])), leaders });
  return NAMELESS.has(kind) ? sentence : `${sentence}: ${inShort(events.map(({ change }) => change.address))}`;
}

function fits(group, { change, ms }) {
  if (group.kind !== change.kind || !Object.hasOwn(MANY, group.kind) || ms - group.firstMs > SPAN_MS) return false;
  if (group.addresses.has(change.address)) return false;
  if (group.kind !== "moved") return true;
  return ["former_leader", "leader"].some((name) => group[name] && group[name] === change[name]);
}

// `entries`: {change, ms}, oldest first.
export function grouped(entries) {
  const groups = [];
  for (const entry of entries) {
    const { change, ms } = entry;
    let at = groups.length - 1;
    while (at >= 0 && ms - groups[at].lastMs <= JOIN_MS && !fits(groups[at], entry)) at--;
    if (at < 0 || ms - groups[at].lastMs > JOIN_MS) {
      const { kind, former_leader, leader } = change;
      const addresses = new Set([change.address]);
      groups.push({ kind, former_leader, leader, firstMs: ms, lastMs: ms, addresses, events: [entry] });
      continue;
    }
    const [group] = groups.splice(at, 1); // its place is that of its last event
    if (group.former_leader !== change.former_leader) group.former_leader = null;
    if (group.leader !== change.leader) group.leader = null;
    group.lastMs = ms;
    group.addresses.add(change.address);
    group.events.push(entry);
    groups.push(group);
  }
  return groups.reverse();
}
