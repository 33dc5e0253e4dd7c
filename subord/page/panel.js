// A panel of what the node that has a queue says, while no node is chosen. Nothing is shown while no operator has
// published a plan; without another answer the last one stays, with its time.

import { fill, moment } from "./dom.js";
import { Poller } from "./poll.js";

const POLL_MS = 10_000; // the queue's node looks at its queue every 5 s at most, and usually every 30 s or more
const POLL_MS_OFF = 30_000; // the asked node answers alone

export class Panel {
  // `name`: of its elements, and of the service. `has`: in words what the node has. `wrong(found)`: what is wrong
  // with an answer, or null. `off(found)` draws that there is no plan in force, `draw(found)` an answer;
  // `notes(found)`: what needs an operator.
  constructor(name, path, { has, wrong, off, draw, notes }) {
    Object.assign(this, { name, has, wrong, off, draw, notes });
    this.last = null; // the last answer of the queue's node: {found, at}
    this.visible = true;
    this.poller = new Poller({
      path,
      pollMs: () => (this.part("").hidden ? POLL_MS_OFF : POLL_MS),
      take: (found, at) => this._take(found, at),
      fail: (error) => this._setNotes(this.last ? [`It is not known now: ${error}.${this._of()}`] : []),
    });
  }

  part(name) {
    return document.getElementById(`${this.name}${name}`);
  }

  start() {
    this.poller.plan(0);
  }

  show(visible) {
    this.visible = visible;
    this._showPart(document.body.classList.contains(`has-${this.name}`));
    this.poller.show(visible);
  }

  _showPart(has) {
    document.body.classList.toggle(`has-${this.name}`, has);
    this.part("").hidden = !(has && this.visible);
  }

  _take(found, at) {
    const wrong = this.wrong(found ?? {});
    if (wrong) return wrong;
    this._showPart(found.version !== null);
    const isKnown = found.state !== null;
    if (isKnown) this.last = { found, at };
    else if (found.off || this.last?.found.address !== found.address) this.last = null;
    if (found.off) this.off(found);
    else this.draw(this.last ? this.last.found : found);
    this._setNotes(found.off ? [] : isKnown ? this.notes(found) : [this._unknown(found)]);
    return null;
  }

  _of() {
    return this.last ? ` This is of ${moment(this.last.at)}.` : "";
  }

  _unknown({ address, missing }) {
    const [cause] = missing.map((each) => each.cause);
    return `${address}, which has ${this.has}, has not answered: ${cause ?? "it is not known why"}.${this._of()}`;
  }

  _setNotes(notes) {
    this.part("-notes").hidden = !notes.length;
    fill(this.part("-notes"), notes);
  }
}
