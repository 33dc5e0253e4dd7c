// Servers as bars of their cores and of their memory: machines that are on by their types, those that are coming,
// those that are not ours, and what is free. What is beyond the end does not exist: the server is overbooked. Each
// bar has a description in words.

import { count, duration, element } from "./dom.js";
import { inOrder } from "./fold.js";

const COLOURS = 6; // of types, in the order of the plan; further ones share the next colour
const MOST = 1.5; // times what a server has: a bar goes no further
const [WIDE, HIGH] = [100, 8];
const SVG = "http://www.w3.org/2000/svg";
const number = (value) => value.toLocaleString("en");
const RESOURCES = [
  { kind: "cores", take: (amount) => amount.cores, show: number, unit: "cores" },
  { kind: "memory", take: (amount) => amount.memory_mb, show: gib, unit: "GiB" },
];

export class Servers {
  constructor(key, rows, order) {
    Object.assign(this, { key, rows, order });
    this.found = null;
    this.made = new Map(); // by name: {of, row}
    order.addEventListener("change", () => this.found && this._draw());
  }

  show(found) {
    this.found = found;
    this._drawKey(found);
    this._draw();
  }

  _drawKey({ types, servers }) {
    const paint = colours(types);
    const items = types.map(({ type, on }) => [paint(type), `${nameOf(type)} ${number(on)} on`]);
    const isFurther = servers.some((each) => each.parts.some(({ type }) => type === null));
    if (isFurther) items.push([paint(null), nameOf(null)]);
    items.push(["coming", "coming"], ["free", "free"]);
    if (servers.some((each) => each.overbooked)) items.push(["beyond", "overbooked"]);
    const text = JSON.stringify(items);
    if (this.key.dataset.items === text) return;
    this.key.dataset.items = text;
    this.key.replaceChildren(...items.map(([colour, words]) => element("li", {}, swatch(colour), words)));
  }

  // Rows that have not changed stay.
  _draw() {
    const { servers, types } = this.found;
    const paint = colours(types);
    const ends = RESOURCES.map(({ take }) => {
      return WIDE / Math.min(MOST, Math.max(1, ...servers.map((each) => ratio(each, take))));
    });
    for (const resource of RESOURCES) {
      const widest = Math.max(0, ...servers.map((each) => numberOf(each, resource).length));
      this.rows.style.setProperty(`--${resource.kind}`, `${widest}ch`); // so that all bars are of one length
    }
    const world = JSON.stringify([ends, types.map((each) => each.type)]);
    const before = this.made;
    this.made = new Map();
    const rows = inTheOrder(servers, this.order.value).map((server) => {
      const of = world + JSON.stringify({ ...server, age_s: ageOf(server) });
      const made = before.get(server.name);
      const row = made?.of === of ? made.row : rowOf(server, paint, ends);
      this.made.set(server.name, { of, row });
      return row;
    });
    if (rows.length !== this.rows.children.length || rows.some((row, at) => row !== this.rows.children[at])) {
      this.rows.replaceChildren(...rows);
    }
  }
}

export function gib(mib) {
  const value = mib / 1024;
  return number(Number(value.toFixed(value < 10 ? 1 : 0)));
}

function nameOf(type) {
  return type === null ? "further types" : type || "not ours";
}

// The class or the number of the colour of a type.
function colours(types) {
  const ours = types.map((each) => each.type).filter(Boolean);
  return (type) => {
    if (type === "") return "foreign";
    const at = ours.indexOf(type);
    return at < 0 ? COLOURS : Math.min(at, COLOURS);
  };
}

function inTheOrder(servers, order) {
  const names = new Map(inOrder(servers.map((each) => each.name)).map((name, at) => [name, at]));
  const named = [...servers].sort((one, other) => names.get(one.name) - names.get(other.name));
  if (order === "name") return named;
  const fullness = new Map(named.map((each) => [each, Math.max(...RESOURCES.map(({ take }) => ratio(each, take)))]));
  return named.sort((one, other) => fullness.get(other) - fullness.get(one)); // equal ones stay in their order
}

// What is used, as a part of what there is.
function ratio({ used, have }, take) {
  if (take(have)) return take(used) / take(have);
  return take(used) ? MOST : 0;
}

// What is said of the age of the last answer: it is shown where it is old.
function ageOf({ fault, age_s: age }) {
  if (age === null) return "not known";
  return fault ? `${duration(age)} old` : "";
}

function rowOf(server, paint, ends) {
  const { name, overbooked, drained, fault } = server;
  const tags = [overbooked && "overbooked", ageOf(server)].filter(Boolean).map((text) => tagOf("warning", text));
  if (drained) tags.push(tagOf("quiet", "drained"));
  const head = element("th", { scope: "row" }, name, ...tags.flatMap((tag) => [" ", tag]));
  const cells = RESOURCES.map((resource, at) => cellOf(server, resource, paint, ends[at]));
  return element("tr", { class: fault ? "is-old" : null }, head, ...cells);
}

function tagOf(kind, text) {
  return element("span", { class: `tag ${kind}` }, text);
}

function cellOf(server, resource, paint, end) {
  const { kind, take, unit } = resource;
  if (server.age_s === null) return element("td", { class: kind }, "\u2013");
  const words = wordsOf(server, resource);
  const text = element("span", { class: "number" }, numberOf(server, resource));
  const bar = element("div", { class: "bar" }, barOf(server, take, paint, end), text);
  const isOver = take(server.used) > take(server.have);
  const rest = element("span", { class: "unseen" }, ` ${unit}: ${words}`);
  return element("td", { class: `${kind}${isOver ? " is-over" : ""}`, title: words }, bar, rest);
}

function numberOf({ used, have }, { take, show }) {
  return `${show(take(used))}/${show(take(have))}`;
}

// "alma 8 (2 machines), coming 1, not ours 2 (1 machine), free 5"
function wordsOf({ parts, have, used }, { take, show, unit }) {
  const [all, taken] = [take(have), take(used)];
  const known = parts.map((each) => `${nameOf(each.type)} ${show(take(each))} (${count(each.on, "machine")})`);
  const coming = taken - sumOf(parts, take);
  if (coming > 0) known.push(`coming ${show(coming)}`);
  known.push(taken > all ? `${show(taken - all)} ${unit} more than the server has` : `free ${show(all - taken)}`);
  return known.join(", ");
}

function sumOf(parts, take) {
  return parts.reduce((sum, each) => sum + take(each), 0);
}

// Ours, those that are coming, and those that are not ours; `end`: where what the server has ends.
function barOf({ parts, have, used }, take, paint, end) {
  const [all, taken] = [take(have), take(used)];
  const svg = newSvg();
  const sized = (each) => ({ colour: paint(each.type), size: take(each) });
  const coming = { colour: "coming", size: Math.max(0, taken - sumOf(parts, take)) };
  const pieces = [...parts.filter((each) => each.type !== "").map(sized), coming];
  pieces.push(...parts.filter((each) => each.type === "").map(sized));
  svg.append(rect("free", 0, end));
  let from = 0;
  for (const { colour, size } of pieces) {
    const to = all ? Math.min(end, from + (size / all) * end) : 0;
    if (to > from) svg.append(rect(colour, from, to));
    from = to;
  }
  if (taken > all) {
    svg.append(rect("beyond", end, Math.min(WIDE, all ? (taken / all) * end : WIDE)));
    svg.append(drawing("line", { class: "end", x1: end, x2: end, y1: 0, y2: HIGH }));
  }
  return svg;
}

function swatch(colour) {
  const svg = newSvg();
  svg.append(rect(colour, 0, WIDE));
  return svg;
}

function newSvg() {
  const size = `0 0 ${WIDE} ${HIGH}`;
  return drawing("svg", { viewBox: size, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" });
}

// `colour`: a class of page.css, or the number of a type.
function rect(colour, from, to) {
  const made = drawing("rect", { x: from.toFixed(2), y: 0, width: (to - from).toFixed(2), height: HIGH });
  if (Number.isInteger(colour)) made.style.fill = `var(--type-${colour})`;
  else made.setAttribute("class", colour);
  return made;
}

function drawing(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
