// The overview: one cell per node, a block for each level, coloured by state, or by a metric; as large as the room
// allows, and larger in a level of one line.
//
// Large cells have the shapes of the tree, small ones are squares. Nodes with the same leader are side by side. The
// drawing has a description in words; what it shows can be reached with keys in the tree.

import { count, MARKS, NAMES, oncePerFrame, setAttribute, TROUBLE } from "./dom.js";

const PITCHES = [16, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3]; // of a cell and its gap, px
const SHAPES_MIN = 9; // smaller cells are squares
const HEIGHT_MIN = 150; // the room in a low window; a higher one gives half of the rest, up to HEIGHT_MAX
const WINDOW_LOW = 690;
const HEIGHT_MAX = 320;
const BLOCK_MIN = 14; // the line of a level has room for its name
const BLOCK_GAP = 3;
const NAMES_WIDTH = 88; // for "level 3: 4,096"; in a narrow drawing for "3: 4,096"
const NARROW = 500;
const NAMES_WIDTH_NARROW = 52;
const LEVELS_MAX = 10; // deeper nodes are in the last block
const REACH = 5;
const CHOSEN_MIN = 8; // the frame of the chosen node is visible around a small cell, too

export class Overview {
  constructor(place, { goTo }) {
    this.place = place;
    this.canvas = place.querySelector("canvas");
    this.cells = []; // {node, x, y, pitch}
    this.levels = [];
    this.view = null;
    this.drawSoon = oncePerFrame(() => this.draw());
    new ResizeObserver(() => this.drawSoon()).observe(place);
    new MutationObserver(() => this.drawSoon()).observe(document.documentElement, { attributes: true });
    this.canvas.addEventListener("mousemove", (event) => {
      const node = this._at(event);
      this.canvas.title = node ? `${node.key}: ${this._said(node).join(", ")}` : "";
      this.canvas.style.cursor = node ? "pointer" : "";
    });
    this.canvas.addEventListener("click", (event) => {
      const node = this._at(event);
      if (node) goTo(node.key);
    });
  }

  // `view`: {forest, chosen (key or null), hits (keys or null), classes (of metrics.js, or null)}
  show(view) {
    const isFirst = this.view === null;
    this.view = view;
    if (isFirst) this.draw(); // the tree gets the rest of the room
    else this.drawSoon();
  }

  draw() {
    if (!this.view) return;
    const { forest, chosen, hits, classes } = this.view;
    const width = this.place.clientWidth;
    if (width && (this.forest !== forest || this.width !== width)) this._arrange(forest, width);
    const pen = this._pen(width);
    const styles = getComputedStyle(document.documentElement);
    const colours = {};
    this._drawNames(pen, styles);
    for (const { node, x, y, pitch } of this.cells) {
      const mark = node.marks[0];
      const shade = classes && mark !== "down" ? classes.shadeOf(classes.numberOf(node)) : undefined;
      const name = shade === undefined ? mark : shade === null ? "none" : `shade-${shade}`;
      colours[name] ??= styles.getPropertyValue(`--${name}`);
      pen.fillStyle = pen.strokeStyle = colours[name];
      pen.globalAlpha = hits && !hits.has(node.key) ? 0.25 : name === "home" ? 0.75 : 1;
      (pitch < SHAPES_MIN ? square : this._shapes())(pen, node.shape, x, y, pitch, shade === null);
    }
    const said = classes ? ` ${classes.inWords(forest.nodes.values())}` : "";
    setAttribute(this.canvas, "aria-label", this.inWords + said);
    pen.globalAlpha = 1;
    const cell = this.cells.find(({ node }) => node.key === chosen);
    if (!cell) return;
    const size = Math.max(CHOSEN_MIN, cell.pitch);
    const aside = (cell.pitch - 1 - size) / 2;
    pen.strokeStyle = styles.getPropertyValue("--text");
    pen.lineWidth = 2;
    pen.strokeRect(cell.x + aside, cell.y + aside, size, size);
  }

  // The largest cells with which everything fits, else the smallest.
  _arrange(forest, width) {
    if (width !== this.width) this.pitch = undefined;
    Object.assign(this, { forest, width, left: width < NARROW ? NAMES_WIDTH_NARROW : NAMES_WIDTH });
    const levels = [];
    for (const node of forest.inDepthOrder()) (levels[Math.min(node.depth, LEVELS_MAX - 1)] ??= []).push(node);
    this.levels = levels.map((nodes) => ({ nodes, y: 0 }));
    const room = Math.max(PITCHES[0], width - this.left);
    const inLine = (pitch) => Math.max(1, Math.floor(room / pitch));
    const lines = (nodes, pitch) => Math.ceil(nodes.length / inLine(pitch));
    const heightOf = (nodes, pitch) => Math.max(BLOCK_MIN, lines(nodes, pitch) * pitch) + BLOCK_GAP;
    const total = (pitch) => this.levels.reduce((sum, { nodes }) => sum + heightOf(nodes, pitch), 0);
    const most = Math.min(HEIGHT_MAX, HEIGHT_MIN + Math.max(0, innerHeight - WINDOW_LOW) / 2);
    const common = this._pitch(PITCHES.find((each) => total(each) <= most) ?? PITCHES.at(-1));
    this.height = this.isSteady ? Math.max(this.height, total(common)) : total(common);
    this.cells = [];
    let y = 0;
    for (const level of this.levels) {
      const { nodes } = level;
      const isLarger = (each) => each >= common && each <= BLOCK_MIN && nodes.length <= inLine(each);
      const pitch = PITCHES.find(isLarger) ?? common;
      const offset = nodes.length <= inLine(pitch) ? Math.max(0, (BLOCK_MIN - pitch) / 2) : 0;
      level.y = y;
      nodes.forEach((node, number) => {
        const [column, line] = [number % inLine(pitch), Math.floor(number / inLine(pitch))];
        this.cells.push({ node, x: this.left + column * pitch, y: y + offset + line * pitch, pitch });
      });
      y += heightOf(nodes, common);
    }
    // Those in trouble are drawn last, above their neighbours.
    this.cells.sort((one, other) => MARKS.indexOf(other.node.marks[0]) - MARKS.indexOf(one.node.marks[0]));
    this.inWords = this._inWords();
  }

  // Cells grow only if they can become much larger, and their room does not shrink meanwhile: the tree below it must
  // not move when nodes come and go.
  _pitch(best) {
    this.isSteady = this.pitch !== undefined && best >= this.pitch && best < 1.5 * this.pitch;
    if (!this.isSteady) this.pitch = best;
    return this.pitch;
  }

  _inWords() {
    const levels = this.levels.map(({ nodes }, level) => {
      const states = MARKS.map((mark) => [nodes.filter((node) => node.marks[0] === mark).length, mark]);
      const said = states.filter(([number, mark]) => number && mark !== "home");
      const more = said.map(([number, mark]) => `, ${number} ${NAMES[mark]}`).join("");
      return `level ${levelName(level, this.levels.length)}: ${count(nodes.length, "node")}${more}`;
    });
    return `Nodes by level. ${levels.join("; ")}.`;
  }

  _pen(width) {
    const { canvas, height } = this;
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    return pen;
  }

  _drawNames(pen, styles) {
    pen.fillStyle = styles.getPropertyValue("--quiet");
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    this.levels.forEach(({ nodes, y }, level) => {
      const name = `${this.width < NARROW ? "" : "level "}${levelName(level, this.levels.length)}`;
      pen.fillText(`${name}: ${nodes.length.toLocaleString("en")}`, 0, y + BLOCK_MIN / 2);
    });
  }

  // The shapes of index.html as paths of a grid of 12.
  _shapes() {
    this.paths ??= Object.fromEntries(
      ["root", ...MARKS].map((name) => {
        const path = document.querySelector(`#mark-${name} path`);
        const disc = new Path2D();
        disc.arc(6, 6, 4.4, 0, 7);
        return [name, path ? new Path2D(path.getAttribute("d")) : disc];
      }),
    );
    return (pen, shape, x, y, pitch, isHollow) => {
      const scale = (pitch - 1) / 12;
      pen.save();
      pen.translate(x, y);
      pen.scale(scale, scale);
      pen.lineWidth = 1 / scale;
      if (isHollow) pen.stroke(this.paths[shape]);
      else pen.fill(this.paths[shape], "evenodd");
      pen.restore();
    };
  }

  _said(node) {
    const { classes } = this.view;
    const states = node.marks.map((mark) => words(mark, node));
    return classes ? [...states, `${classes.name} ${classes.wordsOf(classes.numberOf(node))}`] : states;
  }

  // Small cells of nodes in trouble are found from REACH px, before their neighbours.
  _at({ offsetX, offsetY }) {
    return this.cells.findLast(({ node, x, y, pitch }) => {
      const reach = TROUBLE.includes(node.marks[0]) ? Math.max(REACH, pitch / 2) : pitch / 2;
      return Math.abs(x + pitch / 2 - offsetX) <= reach && Math.abs(y + pitch / 2 - offsetY) <= reach;
    })?.node ?? null;
  }
}

// A node in another place than at home fills its cell, and one that is down is larger, so that they also differ
// without colour.
function square(pen, shape, x, y, pitch, isHollow) {
  pen.lineWidth = 1;
  if (isHollow) pen.strokeRect(x + 0.5, y + 0.5, pitch - 2, pitch - 2);
  else if (shape === "down") pen.fillRect(x - 2, y - 2, pitch + 3, pitch + 3);
  else if (shape !== "home") pen.fillRect(x, y, pitch, pitch);
  else pen.fillRect(x, y, pitch - 1, pitch - 1);
}

function levelName(level, levels) {
  return level === LEVELS_MAX - 1 && levels === LEVELS_MAX ? `${level}+` : String(level);
}

function words(mark, node) {
  return mark === "home" && node.shape === "root" ? "the root" : mark === "guest" ? "a guest" : NAMES[mark];
}
