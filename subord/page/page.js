// The state of the page: what is open, found and chosen.
//
// Documents of the daemon and actions of the user change `view`; after each change the parts of the page are drawn
// from it.

import { elastic } from "./elastic.js";
import { Events } from "./events.js";
import { Forest } from "./forest.js";
import { Header } from "./header.js";
import { machines } from "./machines.js";
import { Metrics } from "./metrics.js";
import { NodePanel } from "./node.js";
import { orders } from "./orders.js";
import { Overview } from "./overview.js";
import { Problems } from "./problems.js";
import { shares } from "./shares.js";
import { Sparkline } from "./sparkline.js";
import { ask } from "./api.js";
import { TreeView } from "./tree.js";
import { Watch } from "./watch.js";
import { count, element, MEANING, setText, shape } from "./dom.js";

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
  troubled: true, // branches with trouble are open, too, unless the user closed them
  text: "",
  marks: new Set(),
  picked: null, // {addresses, words} of a problem
  hits: null,
  shown: null,
  chosen: null,
  named: null, // in the URL of the page, to be chosen when there is a tree
};

const isOpen = (node) => {
  const { shown } = view;
  if (shown) return view.openedFound.get(node.key) ?? node.subordinates.some((each) => shown.has(each.key));
  return view.opened.get(node.key) ?? (node.depth < view.level || (view.troubled && node.troubled));
};

const treeView = new TreeView(part("tree"), {
  choose: (node) => choose(node.key),
  toggle: (nodes, open) => {
    view.fitted = 0;
    for (const node of nodes) (view.shown ? view.openedFound : view.opened).set(node.key, open);
    draw();
  },
});
const overview = new Overview(part("overview"), { goTo: (key) => goTo(key) });
const header = new Header({
  toggle: (mark) => {
    const marks = new Set(view.marks);
    if (!marks.delete(mark)) marks.add(mark);
    seek(view.text, marks);
  },
});
const problems = new Problems({ goTo, pick: (addresses, words) => seek("", [], { addresses, words }) });
const events = new Events({ goTo, isWithin: (key, branch) => view.forest?.isWithin(key, branch) ?? false });
const sparkline = new Sparkline(part("hour"), part("hour-text"), part("hour-most"));
const watch = new Watch({
  onTree,
  onChange: (change) => {
    const isNew = events.add(change);
    if (isNew) {
      sparkline.add(change);
      problems.changed();
    }
    return isNew;
  },
  onNote: (sentence) => events.setNote(sentence),
  onMissed: () => events.missed(),
  onState: () => header.drawConnection(watch.state),
});
const metrics = new Metrics({
  onChange: () => draw(),
  pick(has, words) {
    const addresses = [...view.forest.nodes.values()].filter(has).map(({ address }) => address);
    seek("", [], { addresses, words });
  },
  goTo,
});
const panel = new NodePanel({ goTo, now: () => watch.now(), classes: () => metrics.classes });
treeView.now = () => watch.now();

// -- documents --------------------------------------------------------------------------------------------------

function onTree(tree, at) {
  const began = performance.now();
  view.tree = tree;
  view.seenAt = at;
  view.forest = new Forest(tree, at);
  const size = view.forest.nodes.size;
  overview.show({ forest: view.forest, chosen: view.chosen, hits: null, classes: metrics.classes });
  metrics.show(view.forest);
  // A starting cluster outgrows the fitted level; a level that the user chose stays.
  if (view.fitted && (size > 2 * view.fitted || size < view.fitted / 2)) fit();
  find();
  draw();
  panel.show(view.forest);
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
  document.body.classList.toggle("has-chosen", key !== null);
  problems.show(key === null);
  orders.show(key === null);
  shares.show(key === null);
  elastic.show(key === null);
  machines.show(key === null);
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

const isNarrowed = () => Boolean(view.text || view.marks.size || view.picked);

function seek(text, marks, picked = null) {
  view.text = text;
  view.marks = new Set(marks);
  view.picked = picked;
  if (part("search").value !== text) part("search").value = text;
  view.openedFound.clear();
  find();
  draw();
}

function find() {
  if (!view.forest) return;
  const addresses = view.picked && new Set(view.picked.addresses);
  Object.assign(view, view.forest.matching(view.text, view.marks, addresses));
  drawHeader();
  part("found").hidden = view.hits === null;
  if (!view.hits) return;
  const of = view.picked ? `: ${view.picked.words}` : "";
  setText(part("found"), `${count(view.hits.size, "node")} found${of}. Esc shows everything again.`);
}

function draw() {
  if (!view.forest) return;
  const { forest, shown, hits, chosen } = view;
  const node = forest.nodes.get(chosen);
  const onPath = new Set(node ? forest.path(node).map((each) => each.key) : []);
  const rows = forest.rows(isOpen, shown);
  const { classes } = metrics;
  treeView.show({ rows, tops: forest.tops, isOpen, chosen, onPath, hits, text: view.text, classes });
  overview.show({ forest, chosen, hits, classes });
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
  view.troubled = choice === "fit";
  if (choice === "fit") fit();
  else view.level = choice === "all" ? Infinity : Number(choice);
  draw();
}

// -- the header -----------------------------------------------------------------------------------------------------

function drawHeader() {
  const { tree, forest, marks, seenAt } = view;
  header.draw({ tree, forest, marks, seenAt, now: watch.now() });
}

function tick() {
  header.drawConnection(watch.state);
  if (document.hidden || !view.forest) return;
  drawHeader();
  sparkline.draw(watch.now());
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

function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const writes = event.target.closest("input, select, textarea");
  if (event.key === "/" && !writes) {
    event.preventDefault();
    part("search").focus();
    part("search").select();
  } else if (event.key === "Escape" && isNarrowed()) {
    event.preventDefault();
    const focus = part("tree").contains(document.activeElement);
    seek("", []);
    if (view.chosen !== null) goTo(view.chosen, { focus });
  } else if (event.key === "Escape" && event.target === part("search")) treeView.focus();
  else if (event.key === "Escape") choose(null);
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
  const legend = Object.entries(MEANING).map(([mark, text]) => element("p", {}, shape(mark), text));
  part("legend").append(...legend);
  part("search").addEventListener("input", () => seek(part("search").value, view.marks));
  part("search").addEventListener("keydown", searchPressed);
  part("close").addEventListener("click", () => {
    choose(null);
    treeView.focus();
  });
  part("level").addEventListener("change", () => openTo(part("level").value));
  document.addEventListener("keydown", pressed);
  addEventListener("hashchange", () => goTo(namedInTheAddress()));
  view.fitted = 1;
  view.named = namedInTheAddress();
  watch.start();
  problems.start();
  orders.plan(0);
  shares.start();
  elastic.start();
  machines.start();
  metrics.start();
  nameCluster();
  setInterval(tick, TICK_MS);
  tick();
}

begin();
