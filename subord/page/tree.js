// The tree on the screen: only the visible rows and the row with the focus exist as elements.
//
// The cost of drawing depends on the visible rows, not on the size of the tree. An element is kept while its row is
// visible, and only its differences are written.

import { count, duration, element, oncePerFrame, paint, roundTrip } from "./dom.js";
import { setAttribute, setShape, setText, shape } from "./dom.js";

const BEYOND = 8; // rows above and below the window, against gaps while scrolling
const INDENT_MAX = 24; // deeper nodes state their depth instead
const PRINTED_MAX = 5000;
const PARTS = ["address", "words", "maintenance", "inside", "numbers", "since"]; // of a row, after its mark

export class TreeView {
  // `choose(node)`: the user chose it; `toggle(nodes, open)` opens or closes branches.
  constructor(place, { choose, toggle }) {
    this.place = place;
    this.choose = choose;
    this.toggle = toggle;
    this.rows = [];
    this.tops = [];
    this.index = new Map(); // key -> number of its row
    this.cards = new Map(); // key -> its elements
    this.active = null; // the key that Tab reaches
    this.onPath = new Set();
    this.hits = null;
    this.text = "";
    this.classes = null;
    this.now = () => Date.now(); // the time to which ages are counted
    this.printing = false;
    this.drawSoon = oncePerFrame(() => this.draw());
    this.sheet = element("div", { role: "presentation", class: "sheet" });
    place.append(this.sheet);
    place.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    place.addEventListener("click", (event) => this._clicked(event));
    place.addEventListener("keydown", (event) => this._pressed(event));
    new ResizeObserver(() => this.drawSoon()).observe(place);
    addEventListener("beforeprint", () => this._print(true));
    addEventListener("afterprint", () => this._print(false));
  }

  get height() {
    const styles = getComputedStyle(this.place);
    return Number(styles.getPropertyValue("--row")) * parseFloat(getComputedStyle(document.documentElement).fontSize);
  }

  get rowsInSight() {
    return Math.max(1, Math.floor(this.place.clientHeight / this.height));
  }

  // `view`: {rows, tops, isOpen, chosen (key or null), onPath (keys), hits (keys or null), text (that was searched),
  // classes (of metrics.js, or null)}
  show(view) {
    const anchor = this._anchor();
    Object.assign(this, view);
    this.index = new Map(this.rows.map((node, number) => [node.key, number]));
    const lost = this.active !== null && !this.index.has(this.active);
    if (this.active === null || lost) this.active = this._nextActive();
    this.sheet.style.height = `${this.rows.length * this.height}px`;
    if (anchor && this.index.has(anchor.key)) {
      this.place.scrollTop = this.index.get(anchor.key) * this.height - anchor.below;
    }
    const hadFocus = this.place.contains(document.activeElement);
    this.draw();
    if (lost && hadFocus) this._focus();
  }

  // The visible part must not move when rows above it come and go.
  _anchor() {
    const top = this.place.scrollTop;
    if (!this.rows.length || top === 0) return null;
    const first = Math.min(this.rows.length - 1, Math.floor(top / this.height));
    const active = this.index.get(this.active);
    const seen = active !== undefined && active >= first && active <= first + this.rowsInSight;
    const number = seen ? active : first;
    return { key: this.rows[number].key, below: number * this.height - top };
  }

  // The nearest visible node above the former one, else the chosen one, else the first row.
  _nextActive() {
    let each = this.cards.get(this.active)?.node ?? null;
    while (each && !this.index.has(each.key)) each = each.above;
    if (each) return each.key;
    return this.index.has(this.chosen) ? this.chosen : this.rows[0]?.key ?? null;
  }

  draw() {
    const { height, rows } = this;
    const top = this.place.scrollTop;
    let first = Math.max(0, Math.floor(top / height) - BEYOND);
    let last = Math.min(rows.length, Math.ceil((top + this.place.clientHeight) / height) + BEYOND);
    if (this.printing) [first, last] = [0, Math.min(rows.length, PRINTED_MAX)];
    const seen = new Map();
    for (let number = first; number < last; number++) seen.set(rows[number].key, number);
    const active = this.index.get(this.active);
    if (active !== undefined) seen.set(this.active, active);
    for (const [key, card] of this.cards) {
      if (!seen.has(key)) {
        card.row.remove();
        this.cards.delete(key);
      }
    }
    const now = this.now();
    const numbers = [...seen.values()].sort((one, other) => one - other);
    for (const number of numbers) this._drawRow(number, height, now);
    this._sort(numbers);
  }

  // Screen readers read in this order. The row with the focus is never moved, because it would lose the focus.
  _sort(numbers) {
    const wanted = numbers.map((number) => this.cards.get(this.rows[number].key).row);
    if (wanted.every((row, at) => row === this.sheet.children[at])) return;
    const pivot = Math.max(0, wanted.indexOf(document.activeElement));
    for (const row of wanted.slice(0, pivot)) this.sheet.insertBefore(row, wanted[pivot]);
    this.sheet.append(...wanted.slice(pivot + 1));
  }

  _drawRow(number, height, now) {
    const node = this.rows[number];
    const card = this.cards.get(node.key) ?? this._newCard(node.key);
    const { row } = card;
    card.node = node;
    const open = node.subordinates.length ? this.isOpen(node) : null;
    const siblings = node.above?.subordinates ?? this.tops;
    row.style.transform = `translateY(${number * height}px)`;
    row.style.setProperty("--depth", Math.min(node.depth, INDENT_MAX));
    setAttribute(row, "class", this._classes(node));
    setAttribute(row, "aria-level", node.depth + 1);
    setAttribute(row, "aria-setsize", siblings.length);
    setAttribute(row, "aria-posinset", siblings.indexOf(node) + 1);
    setAttribute(row, "aria-expanded", open === null ? null : String(open));
    setAttribute(row, "aria-selected", String(node.key === this.chosen));
    setAttribute(row, "tabindex", node.key === this.active ? 0 : -1);
    this._drawTexts(node, card, open, now);
  }

  _newCard(key) {
    const card = newCard();
    card.row.dataset.key = key;
    this.cards.set(key, card);
    this.sheet.append(card.row);
    return card;
  }

  _drawTexts(node, card, open, now) {
    const { classes } = this;
    const number = classes?.numberOf(node);
    setShape(card.mark, node.shape);
    paint(card.mark, classes && node.shape !== "down" ? classes.shadeOf(number) : undefined);
    const sought = this.text.trim().toLowerCase();
    if (card.named !== `${node.key} ${sought}`) {
      card.named = `${node.key} ${sought}`;
      card.address.replaceChildren(...marked(node.key, sought));
    }
    setText(card.words, labelsOf(node));
    const { maintenance = null } = node.row;
    if (card.reason !== maintenance) {
      card.reason = maintenance;
      card.maintenance.replaceChildren(...maintenanceOf(maintenance));
    }
    const behind = insideOf(node, open);
    if (card.behind !== behind.text) {
      card.behind = behind.text;
      card.inside.replaceChildren(...behind.parts());
    }
    setText(card.numbers, classes ? classes.wordsOf(number) : numbersOf(node));
    setText(card.since, node.since === null ? "" : duration((now - node.since) / 1000));
  }

  _classes(node) {
    const classes = ["row", `is-${node.marks[0]}`];
    if (node.subordinates.length) classes.push("leads");
    if (node.key === this.chosen) classes.push("chosen");
    else if (this.onPath.has(node.key)) classes.push("on-path");
    if (this.hits && !this.hits.has(node.key)) classes.push("beside");
    return classes.join(" ");
  }

  // -- navigation ---------------------------------------------------------------------------------------------

  _clicked(event) {
    const row = event.target.closest("[role=treeitem]");
    const node = row && this.cards.get(row.dataset.key)?.node;
    if (!node) return;
    if (event.target.closest(".twist") && node.subordinates.length) this.toggle([node], !this.isOpen(node));
    this.goTo(node);
  }

  _pressed(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const at = this.index.get(this.active);
    if (at === undefined) return;
    const node = this.rows[at];
    const page = Math.max(1, this.rowsInSight - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      this.goTo(this.rows[Math.min(this.rows.length - 1, Math.max(0, at + steps[event.key]))]);
    } else if (event.key === "ArrowRight") this._inward(node, at);
    else if (event.key === "ArrowLeft") this._outward(node);
    else if (event.key === "Enter" || event.key === " ") {
      if (node.subordinates.length) this.toggle([node], !this.isOpen(node));
      this.goTo(node);
    } else if (event.key === "*") {
      const siblings = node.above?.subordinates ?? [node];
      this.toggle(siblings.filter((each) => each.subordinates.length), true);
    } else return;
    event.preventDefault();
  }

  _inward(node, at) {
    if (!node.subordinates.length) return;
    const next = this.rows[at + 1];
    if (!this.isOpen(node)) this.toggle([node], true);
    else if (next?.above === node) this.goTo(next);
  }

  _outward(node) {
    if (node.subordinates.length && this.isOpen(node)) this.toggle([node], false);
    else if (node.above) this.goTo(node.above);
  }

  // Choose a node and scroll to it.
  goTo(node, { focus = true } = {}) {
    this.active = node.key;
    this.choose(node);
    this.scrollTo(node.key);
    if (focus) this._focus();
  }

  scrollTo(key) {
    const number = this.index.get(key);
    if (number === undefined) return;
    const { height, place } = this;
    const top = number * height;
    if (top < place.scrollTop) place.scrollTop = top;
    else if (top + height > place.scrollTop + place.clientHeight) place.scrollTop = top + height - place.clientHeight;
    this.draw();
    // On a small screen the whole page scrolls, too.
    this.cards.get(key).row.scrollIntoView({ block: "nearest" });
  }

  _focus() {
    this.cards.get(this.active)?.row.focus({ preventScroll: true });
  }

  focus() {
    this.scrollTo(this.active);
    this._focus();
  }

  // -- printing -----------------------------------------------------------------------------------------------------

  _print(printing) {
    this.printing = printing;
    this.draw();
  }
}

function newCard() {
  const twist = element("span", { class: "twist", "aria-hidden": "true" }, shape("twist"));
  const mark = shape("home");
  const parts = Object.fromEntries(
    PARTS.map((name) => [name, element("span", { class: name })]),
  );
  const texts = Object.values(parts).flatMap((part) => [" ", part]); // spaces for screen readers
  const row = element("div", { role: "treeitem" }, element("span", { class: "indent" }), twist, mark, ...texts);
  return { row, mark, node: null, behind: null, named: null, reason: null, ...parts };
}

// The address with what was searched for in a <mark>.
function marked(text, sought) {
  const at = sought ? text.toLowerCase().indexOf(sought) : -1;
  if (at < 0) return [text];
  const end = at + sought.length;
  return [text.slice(0, at), element("mark", {}, text.slice(at, end)), text.slice(end)].filter(Boolean);
}

function labelsOf(node) {
  const words = node.marks.filter((mark) => mark !== "home");
  if (node.shape === "root") words.unshift("root");
  if (node.row.apart) words.push(node.row.apart);
  if (node.depth > INDENT_MAX) words.push(`depth ${node.depth}`);
  return words.join(", ");
}

function maintenanceOf(reason) {
  if (!reason) return [];
  const text = String(reason);
  return [
    shape("maintained"),
    element("span", { class: "unseen" }, "under maintenance: "),
    element("span", { class: "reason", title: text }, text),
  ];
}

// The counts of a closed branch.
function insideOf(node, open) {
  if (open !== false) return { text: "", parts: () => [] };
  const marks = Object.entries(node.inside).filter(([mark, number]) => number && mark !== "home");
  const texts = marks.map(([mark, number]) => (mark === "guest" ? count(number, mark) : count(number, mark, mark)));
  const below = node.below ? [`${count(node.below, "node")} below`] : [];
  return {
    text: [...below, ...texts].join(", "),
    parts: () => [
      ...below.map((text) => element("span", { class: "below" }, text)),
      ...marks.flatMap(([mark], each) => [" ", badge(mark, texts[each])]),
    ],
  };
}

function badge(mark, text) {
  return element("span", { class: `badge is-${mark}` }, shape(mark), text);
}

function numbersOf(node) {
  const { performance, round_trip_s: roundTripS } = node.row;
  const numbers = [];
  if (performance !== null && performance !== undefined) numbers.push(`${performance} jobs`);
  if (roundTripS !== null && roundTripS !== undefined) numbers.push(roundTrip(roundTripS));
  return numbers.join(", ");
}
