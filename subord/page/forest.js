// The documents of the daemon as a forest of nodes, and its visible rows.
//
// Input: the flat rows of /v1/tree and the members. Output: nodes with their subordinates, the counts of all states
// in each branch, the hits of a search, and the rows to draw. Nothing here touches the page, and nothing recurses.

import { MARKS } from "./dom.js";

const AWAY = new Set(["missing", "gone"]);
const ANCESTORS_MAX = 256; // above a gone node, in search of a present one

// The states of a node, most urgent first.
function marksOf(row) {
  const marks = [];
  if (row.standing !== "live" && MARKS.includes(row.standing)) marks.push(row.standing);
  if (row.place === "guest") marks.push("guest");
  else if (!marks.length || row.standing === "held") marks.push("home"); // a held node may be at home, too
  return marks;
}

function noMarks() {
  return Object.fromEntries(MARKS.map((mark) => [mark, 0]));
}

// Whether a document has the parts of /v1/tree?form=rows that this page uses.
export function isTree(document) {
  const isRow = (row) => typeof row?.address === "string" && Number.isInteger(row.real_level) && row.real_level >= 0;
  return Array.isArray(document?.rows) && document.rows.every(isRow);
}

export class Forest {
  // `tree`: /v1/tree?form=rows, asked `at` (ms); `members`: null, or {document, at} of /v1/members.
  constructor(tree, at, members = null) {
    this.tops = [];
    this.nodes = new Map(); // by key, depth first; a key is an address, with a number if several rows have it
    this.totals = noMarks();
    this.root = null;
    this.depth = 0;
    this._addRows(tree.rows, at);
    if (members) this._addGone(members.document.members ?? [], members.at);
    this._count();
  }

  _addRows(rows, at) {
    const path = [];
    for (const row of rows) {
      path.length = Math.min(row.real_level, path.length);
      const node = this._add(row, path.at(-1) ?? null, at);
      path.push(node);
      if (row.place === "root" && row.standing !== "missing" && this.root === null) this.root = node;
    }
  }

  // A gone node is placed below its last leader, or below the nearest present node above that. A member that is
  // missing and is in no row is gone, too.
  _addGone(members, at) {
    const gone = new Map();
    for (const member of members) {
      if (AWAY.has(member.standing) && !this.nodes.has(member.address)) {
        gone.set(member.address, { ...member, standing: "gone" });
      }
    }
    for (const member of gone.values()) {
      let leader = member.leader;
      for (let steps = 0; steps < ANCESTORS_MAX && gone.has(leader); steps++) leader = gone.get(leader).leader;
      const above = gone.has(leader) ? null : this.nodes.get(leader) ?? null;
      this._add({ ...member, apart: above ? null : "its last leader is not in the tree" }, above, at);
    }
  }

  _add(row, above, at) {
    let key = row.address;
    for (let again = 2; this.nodes.has(key); again++) key = `${row.address} (${again})`;
    const node = {
      row, key, above,
      address: row.address,
      depth: above ? above.depth + 1 : 0,
      since: at - row.since_s * 1000,
      marks: marksOf(row),
      subordinates: [],
      below: 0, // present nodes, without missing and gone ones
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
    for (const node of all) for (const mark of node.marks) this.totals[mark]++;
    // Deeper nodes are counted first; gone nodes were added last, so the order of insertion is not enough.
    for (const node of all.sort((one, other) => other.depth - one.depth)) {
      const { above } = node;
      if (!above) continue;
      above.inside ??= noMarks();
      above.below += node.below + (AWAY.has(node.marks[0]) ? 0 : 1);
      for (const mark of node.marks) above.inside[mark]++;
      if (node.inside) for (const mark of MARKS) above.inside[mark] += node.inside[mark];
    }
  }

  // The root first, the node itself last.
  path(node) {
    const path = [];
    for (let each = node; each; each = each.above) path.push(each);
    return path.reverse();
  }

  isWithin(key, branch) {
    for (let each = this.nodes.get(key); each; each = each.above) if (each.key === branch) return true;
    return false;
  }

  // The keys of the matching nodes, and of all above them. Both null: all nodes are shown.
  matching(text, marks) {
    const wanted = text.trim().toLowerCase();
    if (!wanted && !marks.size) return { hits: null, shown: null };
    const hits = new Set();
    const shown = new Set();
    for (const node of this.nodes.values()) {
      if (wanted && !node.address.toLowerCase().includes(wanted)) continue;
      if (marks.size && !node.marks.some((mark) => marks.has(mark))) continue;
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
