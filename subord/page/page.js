// The state of the page: what is open, found and chosen.
//
// Documents of the daemon and actions of the user change `view`; after each change the parts of the page are drawn
// from it.

import { Events } from "./events.js";
import { Forest } from "./forest.js";
import { NodePanel } from "./node.js";
import { ask } from "./api.js";
import { TreeView } from "./tree.js";
import { Watch } from "./watch.js";
import { count, duration, element, MARKS, MEANING, setAttribute, setText, shape } from "./dom.js";

const part = (name) => document.getElementById(name);
const LEVELS_MAX = 12; // offered one by one
const TICK_MS = 1000;

const view = {
  forest: null,
  tree: null, // the document
  seenAt: 0,
  level: 0, // branches above it are open unless the user closed them
  fitted: 0, // nodes when `level` was fitted to the screen; 0: the user chose it
  opened: new Map(), // key -> open or closed by the user
  openedFound: new Map(), // the same during a search
  text: "",
  marks: new Set(),
  hits: null,
  shown: null,
  chosen: null,
  named: null, // in the URL of the page, to be chosen when there is a tree
};

const isOpen = (node) => {
  const { shown } = view;
  if (shown) return view.openedFound.get(node.key) ?? node.subordinates.some((each) => shown.has(each.key));
  return view.opened.get(node.key) ?? node.depth < view.level;
};

const treeView = new TreeView(part("tree"), {
  choose: (node) => choose(node.key),
  toggle: (nodes, open) => {
    view.fitted = 0;
    for (const node of nodes) (view.shown ? view.openedFound : view.opened).set(node.key, open);
    draw();
  },
});
const panel = new NodePanel({ goTo });
const events = new Events({ goTo, isWithin: (key, branch) => view.forest?.isWithin(key, branch) ?? false });
const watch = new Watch({
  onTree,
  onChange: (change) => events.add(change),
  onNote: (sentence) => events.setNote(sentence),
  onMissed: () => events.missed(),
  onState: () => drawConnection(),
});

// -- documents --------------------------------------------------------------------------------------------------

function onTree(tree, members, at) {
  const began = performance.now();
  view.tree = tree;
  view.seenAt = at;
  view.forest = new Forest(tree, at, members);
  const size = view.forest.nodes.size;
  // A starting cluster outgrows the fitted level; a level that the user chose stays.
  if (view.fitted && (size > 2 * view.fitted || size < view.fitted / 2)) fit();
  find();
  draw();
  panel.show(view.forest);
  drawHeader();
  if (view.named !== null) goTo(view.named);
  view.named = null;
  // For measurements; only the last one is kept.
  performance.clearMeasures("subord-tree");
  performance.measure("subord-tree", { start: began, end: performance.now() });
}

function fit() {
  view.level = view.forest.levelThatFits(treeView.rowsInSight);
  view.fitted = view.forest.nodes.size;
}

function choose(key) {
  if (key === view.chosen) return;
  view.chosen = key;
  // The URL names the node, so that it can be shared; the browser's history is not extended.
  history.replaceState(null, "", key === null ? location.pathname + location.search : `#${encodeURIComponent(key)}`);
  panel.choose(key);
  events.choose(key);
  draw();
}

// Opens all branches and ends a search that hide the node.
function goTo(key, { focus = false } = {}) {
  const node = view.forest?.nodes.get(key);
  if (!node) return choose(key);
  if (view.shown && !view.shown.has(key)) seek("", []);
  const opened = view.shown ? view.openedFound : view.opened;
  for (let each = node.above; each; each = each.above) if (!isOpen(each)) opened.set(each.key, true);
  view.fitted = 0;
  choose(key);
  draw();
  treeView.goTo(node, { focus });
}

// -- search and states ----------------------------------------------------------------------------------------------

function seek(text, marks) {
  view.text = text;
  view.marks = new Set(marks);
  if (part("search").value !== text) part("search").value = text;
  view.openedFound.clear();
  find();
  draw();
}

function find() {
  if (!view.forest) return;
  Object.assign(view, view.forest.matching(view.text, view.marks));
  for (const chip of part("states").children) {
    const { mark } = chip.dataset;
    setAttribute(chip, "aria-pressed", String(view.marks.has(mark)));
    setText(chip.querySelector(".number"), view.forest.totals[mark].toLocaleString("en"));
    chip.classList.toggle("none", view.forest.totals[mark] === 0);
  }
  part("found").hidden = view.hits === null;
  if (view.hits) setText(part("found"), `${count(view.hits.size, "node")} found. Esc shows everything again.`);
}

function draw() {
  if (!view.forest) return;
  const { forest, shown, hits, chosen } = view;
  const node = forest.nodes.get(chosen);
  const onPath = new Set(node ? forest.path(node).map((each) => each.key) : []);
  treeView.show({ rows: forest.rows(isOpen, shown), tops: forest.tops, isOpen, chosen, onPath, hits });
  const empty = forest.nodes.size === 0 ? "There is no node." : "No node matches.";
  part("tree-empty").hidden = treeView.rows.length > 0;
  setText(part("tree-empty"), empty);
  drawLevels();
}

function drawLevels() {
  const depth = Math.min(view.forest.depth, LEVELS_MAX);
  const choice = part("level");
  if (Number(choice.dataset.depth) === depth) return;
  choice.dataset.depth = depth;
  const chosen = choice.value || "fit";
  const offered = [["fit", "fit the screen"]];
  for (let level = 1; level <= depth; level++) offered.push([String(level), `level ${level}`]);
  offered.push(["all", "all levels"]);
  choice.replaceChildren(...offered.map(([value, text]) => element("option", { value }, text)));
  choice.value = offered.some(([value]) => value === chosen) ? chosen : "all";
}

function openTo(choice) {
  view.opened.clear();
  view.openedFound.clear();
  view.fitted = 0;
  if (choice === "fit") fit();
  else view.level = choice === "all" ? Infinity : Number(choice);
  draw();
}

// -- the header -----------------------------------------------------------------------------------------------------

const figures = new Map();

function drawHeader() {
  const { tree, forest } = view;
  const guests = tree.nodes - tree.at_home;
  const shown = [
    ["nodes", tree.nodes, ""],
    ["at home", tree.at_home, ""],
    ["guests", guests, guests && "is-guest"],
    ["missing", tree.missing, tree.missing && "is-missing"],
    ["stale", tree.stale || null, "is-stale"],
    ["held", tree.held || null, "is-held"],
    ["gone", forest.totals.gone || null, "is-gone"],
    ["depth", tree.depth, ""],
    ["root", forest.root?.address ?? "not known", ""],
    ["quiet for", duration(tree.quiet_s + (Date.now() - view.seenAt) / 1000), ""],
    ["asked", tree.asked, ""],
  ];
  for (const [name, value, mark] of shown) {
    if (!figures.has(name)) {
      const box = element("div", {}, element("dt", {}, name), element("dd"));
      figures.set(name, box);
      part("summary").append(box);
    }
    const box = figures.get(name);
    box.hidden = value === null;
    setAttribute(box, "class", mark || null);
    setText(box.lastChild, typeof value === "number" ? value.toLocaleString("en") : String(value));
  }
  part("note").hidden = tree.complete;
  setText(part("note"), tree.complete ? "" : `Not the whole cluster: ${tree.note ?? "the reason is not known"}.`);
  document.title = `${tree.missing ? `${tree.missing} missing, ` : ""}${count(tree.nodes, "node")} - subord`;
}

function drawConnection() {
  const { name, text, age } = watch.state;
  setAttribute(part("connection"), "data-state", name);
  setText(part("connection-text"), text);
  setText(part("age"), age);
}

function tick() {
  drawConnection();
  if (document.hidden || !view.forest) return;
  drawHeader();
  treeView.draw();
  panel.tick();
}

async function nameCluster() {
  const { document: status } = await ask("v1/status");
  if (!status?.settings) return;
  const { network, fanout, mapping } = status.settings;
  setText(part("cluster"), `${network}, fan-out ${fanout}, ${mapping} mapping`);
}

// -- the user -----------------------------------------------------------------------------------------------------

function chip(mark) {
  const words = element("span", {}, mark === "home" ? "at home" : mark === "guest" ? "guests" : mark);
  const button = element("button", { type: "button", class: `chip is-${mark}`, "data-mark": mark });
  button.append(shape(mark), words, " ", element("span", { class: "number" }, "0"));
  button.addEventListener("click", () => {
    const marks = new Set(view.marks);
    if (!marks.delete(mark)) marks.add(mark);
    seek(view.text, marks);
  });
  return button;
}

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const writes = event.target.closest("input, select, textarea");
  if (event.key === "/" && !writes) {
    event.preventDefault();
    part("search").focus();
    part("search").select();
  } else if (event.key === "Escape" && (view.text || view.marks.size)) {
    event.preventDefault();
    const focus = part("tree").contains(document.activeElement);
    seek("", []);
    if (view.chosen !== null) goTo(view.chosen, { focus });
  } else if (event.key === "Escape" && event.target === part("search")) treeView.focus();
}

function searchPressed(event) {
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  const first = treeView.rows.find((node) => !view.hits || view.hits.has(node.key));
  if (!first) return;
  event.preventDefault();
  treeView.goTo(first);
}

function namedInTheAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
}

function begin() {
  part("states").append(...MARKS.map(chip));
  const legend = Object.entries(MEANING).map(([mark, text]) => element("p", {}, shape(mark), text));
  part("legend").append(...legend);
  part("search").addEventListener("input", () => seek(part("search").value, view.marks));
  part("search").addEventListener("keydown", searchPressed);
  part("level").addEventListener("change", () => openTo(part("level").value));
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", () => goTo(namedInTheAddress()));
  view.fitted = 1;
  view.named = namedInTheAddress();
  watch.start();
  nameCluster();
  setInterval(tick, TICK_MS);
  tick();
}

begin();
