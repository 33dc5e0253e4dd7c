// Drawings of values over the last time, from 0 to the greatest, as wide as their cell.

import { element } from "./dom.js";

const WIDTH = 120;
const HEIGHT = 24;
const ALONE = 90; // the least width is this part of the span, as of a single moment
const MARGIN = 1.1; // above the greatest value
const SVG = "http://www.w3.org/2000/svg";

// A cell with an empty drawing, and a place for its description in words.
export function newCurve() {
  const svg = document.createElementNS(SVG, "svg");
  const attributes = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, value);
  return element("td", { class: "curve" }, svg, element("span", { class: "unseen" }));
}

export function spanOf(spans, ages) {
  return spans.find((each) => each >= (ages[0] ?? 0)) ?? spans.at(-1);
}

// The points of a line, in pieces where more time than `gap` is between two; null is no value.
export function runsOf(values, ages, gap, span) {
  const runs = [];
  let before = Infinity;
  values.forEach((value, at) => {
    const age = ages[at];
    if (value === null) return;
    if (before - age > gap) runs.push([]);
    runs.at(-1).push({ age, value });
    before = age;
  });
  return runs.map((run) => {
    const [{ age, value }] = run;
    const end = run.at(-1).age;
    return age - end < span / ALONE ? [{ age: end + span / ALONE, value }, ...run] : run;
  });
}

// What draws runs of values up to `most` in a time of `span`.
export function pen(span, most) {
  const x = (age) => (WIDTH * (1 - Math.min(span, age) / span)).toFixed(2);
  const y = (value) => ((HEIGHT - 1) * (1 - value / (most * MARGIN))).toFixed(2);
  const path = (points) => points.map(({ age, value }) => `${x(age)} ${y(value)}`).join("L");
  const bottom = HEIGHT - 1;
  return {
    before: (age) => drawn("unknown", `M0 ${HEIGHT - 0.5}H${x(age === undefined ? 0 : Math.max(age, span / ALONE))}`),
    lines: (kind, runs) => runs.map((run) => drawn(kind, `M${path(run)}`)),
    areas: (runs) => {
      return runs.map((run) => {
        return drawn("area", `M${x(run[0].age)} ${bottom}L${path(run)}L${x(run.at(-1).age)} ${bottom}Z`);
      });
    },
  };
}

function drawn(kind, d) {
  const made = document.createElementNS(SVG, "path");
  made.setAttribute("class", kind);
  made.setAttribute("d", d);
  return made;
}
