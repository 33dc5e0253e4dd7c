// Elements, durations, states. Texts of the cluster are always set as text, never as markup.

// Most urgent first: a branch or a node with several marks has the colour of the first.
export const MARKS = ["down", "stale", "held", "guest", "home"];
// What is counted and filtered by: the states, and whether an operator announced work on the node.
export const STATES = [...MARKS, "maintained"];
export const TROUBLE = ["down", "stale", "held"];
export const NAMES = {
  down: "down",
  stale: "stale",
  held: "held",
  guest: "guests",
  home: "at home",
  maintained: "under maintenance",
};

export const MEANING = {
  root: "the root: has no leader",
  home: "at home: below its computed leader",
  guest: "a guest: below another leader while its home is not available; not a problem",
  held: "held: a node above lost its leader and holds the branch together",
  stale: "stale: the node that reported it is silent just now",
  down: "down: vanished without goodbye; it stays below its last leader until it returns or is forgotten",
  maintained: "under maintenance: an operator announced work on it, so it causes neither problems nor alerts",
};

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"]];

// "0.3 s", "12 s", "5 min", "3 h", "2 d": rounded down, as in the command line.
export function duration(seconds) {
  const least = Number.isFinite(seconds) ? Math.max(0, seconds) : 0;
  for (const [size, unit] of UNITS) {
    if (least >= size) return `${Math.floor(least / size)} ${unit}`;
  }
  return `${Math.floor(least)} s`;
}

const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

// "03:12:45", or "23 Nov 03:12:45" of another day; "" for no time.
export function moment(ms) {
  const at = new Date(ms);
  if (!Number.isFinite(at.getTime())) return "";
  return at.toDateString() === new Date().toDateString() ? TIME.format(at) : `${DAY.format(at)} ${TIME.format(at)}`;
}

// "0.21 ms", "14 ms", "1.2 s"
export function roundTrip(seconds) {
  if (seconds >= 1) return `${seconds.toPrecision(2)} s`;
  const ms = seconds * 1000;
  return `${ms >= 10 ? Math.round(ms) : Number(ms.toPrecision(2))} ms`;
}

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

// "0.0123", "1.23", "12.3k", "4.56G": as in the command line.
export function short(value) {
  const size = Math.abs(value);
  let power = size >= 1 ? Math.min(Math.floor(Math.log10(size) / 3), PREFIXES.length - 1) : 0;
  const text = () => Number((value / 1000 ** power).toPrecision(3));
  if (Math.abs(text()) >= 1000 && power + 1 < PREFIXES.length) power++;
  return text() + PREFIXES[power];
}

export function rangeOf(least, greatest) {
  const [low, high] = [short(least), short(greatest)];
  return low === high ? low : `${low} to ${high}`;
}

// Numbers of JSON are exact up to 2^53; positions and offsets in a wide network of IPv6 are larger.
export function exact(number) {
  const isExact = typeof number !== "number" || Number.isSafeInteger(number);
  return isExact ? String(number) : `about ${number.toExponential(3)}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

// As the cluster says it, with a capital and a full stop.
export function sentence(text) {
  const whole = `${text[0].toUpperCase()}${text.slice(1)}`;
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

// An element. Attributes are set one by one, children that are no elements become text.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

// A link to another node; the part of the page that shows it handles clicks on `[data-go]`.
export function link(address) {
  return element("button", { type: "button", class: "link", "data-go": String(address) }, String(address));
}

// One of the shapes of index.html; its colour comes from the class.
export function shape(name) {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  drawn.setAttribute("class", `shape is-${name}`);
  drawn.setAttribute("aria-hidden", "true");
  drawn.setAttribute("focusable", "false");
  drawn.append(document.createElementNS("http://www.w3.org/2000/svg", "use"));
  setShape(drawn, name);
  return drawn;
}

export function setShape(drawn, name) {
  const target = name === "twist" ? "#twist" : `#mark-${name}`;
  const use = drawn.firstChild;
  if (use.getAttribute("href") === target) return;
  use.setAttribute("href", target);
  drawn.setAttribute("class", `shape is-${name}`);
}

// Gives a shape or a swatch the colour of a metric (page.css); null: of no value, which is hollow, so that it differs
// without colour, too; undefined: the colour of its state.
export function paint(drawn, shade) {
  const colour = shade === undefined ? "" : `var(--${shade === null ? "none" : `shade-${shade}`})`;
  if (drawn.style.color === colour) return;
  drawn.style.color = colour;
  drawn.style.fill = shade === null ? "none" : colour && "currentcolor";
  drawn.style.stroke = shade === null ? "currentcolor" : "";
}

// Only a difference is written, so that a selection of the user stays.
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// The items of a list; only when they differ, so that a text which is read is not read again.
export function fill(list, texts) {
  if ([...list.children].map((each) => each.textContent).join("\n") === texts.join("\n")) return;
  list.replaceChildren(...texts.map((text) => element("li", {}, text)));
}

export function setAttribute(target, name, value) {
  if (value === null) target.removeAttribute(name);
  else if (target.getAttribute(name) !== String(value)) target.setAttribute(name, value);
}

// Many calls in a row, as in a burst of events, act once per frame.
export function oncePerFrame(act) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      act();
    });
  };
}
