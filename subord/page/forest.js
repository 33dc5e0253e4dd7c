// The document of the daemon as a forest of nodes, and its visible rows.
//
// Input: the flat rows of /v1/tree, also of nodes that are down. Output: nodes with their subordinates, the counts of
// all states in each branch, the hits of a search, and the rows to draw. Nothing here touches the page, and nothing
// recurses.

import { STATES, TROUBLE } from "./dom.js";

const AWAY = new Set(["missing", "gone"]);

// The states of a node, most urgent first. Nodes that are away are not counted by their last place.
function marksOf(row) {
  if (AWAY.has(row.standing)) return ["down"];
  if (row.standing === "stale") return ["stale"];
  const place = row.place === "guest" ? "guest" : "home";
  return row.standing === "held" ? ["held", place] : [place];
}

function noMarks() {
  return Object.fromEntries(STATES.map((mark) => [mark, 0]));
}

// What a node is counted by.
function statesOf(node) {
  return node.row.maintenance ? [...node.marks, "maintained"] : node.marks;
}

// Whether a document has the parts of /v1/tree?form=rows that this page uses.
export function isTree(document) {
  const isRow = (row) => typeof row?.address === "string" && Number.isInteger(row.real_level) && row.real_level >= 0;
  return Array.isArray(document?.rows) && document.rows.every(isRow);
}

export class Forest {
  // `tree`: /v1/tree?form=rows, asked `at` (ms).
  constructor(tree, at) {
    this.tops = [];
    this.nodes = new Map(); // by key, depth first; a key is an address, with a number if several rows have it
    this.totals = noMarks();
    this.root = null;
    this.depth = 0;
    this._addRows(tree.rows, at);
    this._count();
  }

  _addRows(rows, at) {
    const path = [];
    for (const row of rows) {
      path.length = Math.min(row.real_level, path.length);
      const node = this._add(row, path.at(-1) ?? null, at);
      path.push(node);
      if (row.place === "root" && !AWAY.has(row.standing) && this.root === null) this.root = node;
    }
  }

  _add(row, above, at) {
    let key = row.address;
    for (let again = 2; this.nodes.has(key); again++) key = `${row.address} (${again})`;
    const node = {
      row, key, above,
      address: row.address,
      depth: above ? above.depth + 1 : 0,
      since: Number.isFinite(row.since_s) ? at - row.since_s * 1000 : null, // null: not known
      marks: marksOf(row),
      subordinates: [],
      below: 0, // nodes that are not down
      troubled: false, // whether a node below is in trouble that no operator announced
      inside: null, // marks of all nodes below; null: there are none
    };
    node.shape = node.marks[0] === "home" && row.place === "root" ? "root" : node.marks[0];
    this.nodes.set(key, node);
    (above ? above.subordinates : this.tops).push(node);
    this.depth = Math.max(this.depth, node.depth);
    return node;
  }

  _count() {
    const all = [...this.nodes.values()];
    for (const node of all) for (const mark of statesOf(node)) this.totals[mark]++;
    // Deeper nodes are counted first: rows are depth first.
    for (const node of all.reverse()) {
      const { above } = node;
      if (!above) continue;
      above.inside ??= noMarks();
      above.below += node.below + (node.marks[0] === "down" ? 0 : 1);
      above.troubled ||= node.troubled || (TROUBLE.includes(node.marks[0]) && !node.row.maintenance);
      for (const mark of statesOf(node)) above.inside[mark]++;
      if (node.inside) for (const mark of STATES) above.inside[mark] += node.inside[mark];
    }
  }

  // The root first, the node itself last.
  path(node) {
    const path = [];
    for (let each = node; each; each = each.above) path.push(each);
    return path.reverse();
  }

  // Depth first, also nodes that are down.
  inDepthOrder() {
    return this.rows(() => true, null);
  }

  isWithin(key, branch) {
    for (let each = this.nodes.get(key); each; each = each.above) if (each.key === branch) return true;
    return false;
  }

  // The keys of the matching nodes, and of all above them. Both null: all nodes are shown. `picked`: only these
  // addresses, or null.
  matching(text, marks, picked = null) {
    const wanted = text.trim().toLowerCase();
    if (!wanted && !marks.size && !picked) return { hits: null, shown: null };
    const hits = new Set();
    const shown = new Set();
    for (const node of this.nodes.values()) {
      if (wanted && !node.address.toLowerCase().includes(wanted)) continue;
      if (picked && !picked.has(node.address)) continue;
      if (marks.size && !statesOf(node).some((mark) => marks.has(mark))) continue;
      hits.add(node.key);
      for (let each = node; each && !shown.has(each.key); each = each.above) shown.add(each.key);
    }
    return { hits, shown };
  }

  // Depth first: the shown nodes whose leaders are all open.
  rows(isOpen, shown) {
    const rows = [];
    const waiting = [...this.tops].reverse();
    while (waiting.length) {
      const node = waiting.pop();
      if (shown && !shown.has(node.key)) continue;
      rows.push(node);
      if (!node.subordinates.length || !isOpen(node)) continue;
      for (let i = node.subordinates.length - 1; i >= 0; i--) waiting.push(node.subordinates[i]);
    }
    return rows;
  }

  // The deepest level to which all branches fit in `rowsMax` rows; at least the first.
  levelThatFits(rowsMax) {
    const wide = new Array(this.depth + 1).fill(0);
    for (const node of this.nodes.values()) wide[node.depth]++;
    let level = 0;
    for (let rows = wide[0]; level < this.depth && (level === 0 || rows + wide[level + 1] <= rowsMax); level++) {
      rows += wide[level + 1];
    }
    return level;
  }
}
