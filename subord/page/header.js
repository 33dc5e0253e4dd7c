// The header: the counts, each once, and the state of the connection. A count of a state shows only its nodes.

import { count, duration, element, NAMES, STATES, setAttribute, setText, shape } from "./dom.js";

const ALWAYS = new Set(["down", "guest", "home"]); // the others only if there are any

const part = (name) => document.getElementById(name);

export class Header {
  // `toggle(mark)`: the user selects or releases a state.
  constructor({ toggle }) {
    this.figures = new Map();
    part("states").append(...STATES.map((mark) => chip(mark, toggle)));
  }

  // `now`: ms; `seenAt`: when the tree was asked for; `marks`: the selected states.
  draw({ tree, forest, marks, seenAt, now }) {
    this._figure("nodes", tree.nodes.toLocaleString("en"));
    this._figure("depth", String(tree.depth));
    this._figure("root", forest.root?.address ?? "not known");
    this._figure("asked", tree.asked === forest.root?.address ? null : String(tree.asked));
    this._figure("quiet for", duration(tree.quiet_s + (now - seenAt) / 1000));
    for (const button of part("states").children) {
      const { mark } = button.dataset;
      const total = forest.totals[mark];
      setAttribute(button, "aria-pressed", String(marks.has(mark)));
      setText(button.querySelector(".number"), total.toLocaleString("en"));
      button.classList.toggle("none", total === 0);
      button.hidden = total === 0 && !marks.has(mark) && !ALWAYS.has(mark);
    }
    const notes = tree.complete ? [] : [`Not the whole cluster: ${tree.note ?? "the reason is not known"}.`];
    if (tree.refused) notes.push(`The root is ${tree.refused}.`);
    part("note").hidden = !notes.length;
    setText(part("note"), notes.join(" "));
    const { down } = forest.totals;
    document.title = `${down ? `${down} down, ` : ""}${count(tree.nodes, "node")} - subord`;
  }

  _figure(name, text) {
    if (!this.figures.has(name)) {
      const box = element("div", {}, element("dt", {}, name), element("dd"));
      this.figures.set(name, box);
      part(name === "nodes" ? "headline" : "summary").append(box);
    }
    const box = this.figures.get(name);
    box.hidden = text === null;
    setText(box.lastChild, text ?? "");
  }

  drawConnection({ name, text, age }) {
    setAttribute(document.body, "data-connection", name);
    setText(part("connection-text"), text);
    setText(part("age"), age);
  }
}

function chip(mark, toggle) {
  const number = element("span", { class: "number" }, "0");
  const button = element("button", { type: "button", class: `chip is-${mark}`, "data-mark": mark });
  button.append(shape(mark), number, " ", element("span", { class: "name" }, NAMES[mark]));
  button.addEventListener("click", () => toggle(mark));
  return button;
}
