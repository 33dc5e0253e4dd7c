// Talking with the daemon: questions that end, and a stream that is taken up again.
//
// Intuition: a telephone that is put down when nobody answers, and a radio that looks for its station again when it
// was lost, a little more patiently each time.

const ANSWER_S_MAX = 10;
const PATIENCE_S = [1, 2, 4, 8, 15, 30]; // seconds until the next try

// An address beside this page, whatever proxy and prefix stand before the daemon.
function beside(path) {
  return new URL(path, document.baseURI);
}

// {document}, or {error}: one sentence, or {cancelled: true} after `signal`. Never throws for what the daemon does.
export async function ask(path, { seconds = ANSWER_S_MAX, signal = null } = {}) {
  const line = new AbortController();
  const hangUp = () => line.abort();
  const alarm = setTimeout(hangUp, seconds * 1000);
  signal?.addEventListener("abort", hangUp);
  try {
    const response = await fetch(beside(path), { signal: line.signal, cache: "no-store" });
    const text = await response.text();
    if (response.ok) return { document: JSON.parse(text) };
    return { error: sentenceOf(text) ?? `the daemon answered with status ${response.status}` };
  } catch (error) {
    if (signal?.aborted) return { cancelled: true };
    if (line.signal.aborted) return { error: `no answer within ${seconds} s` };
    if (error instanceof SyntaxError) return { error: "the answer is no document that this page understands" };
    return { error: "no answer" };
  } finally {
    clearTimeout(alarm);
    signal?.removeEventListener("abort", hangUp);
  }
}

function sentenceOf(text) {
  try {
    const { error } = JSON.parse(text);
    return typeof error === "string" ? error : null;
  } catch {
    return null;
  }
}

export function patienceS(failures) {
  return PATIENCE_S[Math.min(failures, PATIENCE_S.length) - 1] ?? 0;
}

// The daemon's server-sent events (WHATWG HTML, 9.2). `heard(change)`, `noted(sentence or null)`, `missed()`, and
// `turned(open)`.
export class Stream {
  constructor(path, { heard, noted, missed, turned }) {
    this.path = path;
    this.handlers = { heard, noted, missed, turned };
    this.source = null;
    this.token = ""; // of the last event that was heard, or an earlier one
    this.failures = 0;
    this.again = null;
  }

  open() {
    if (this.source) return;
    clearTimeout(this.again);
    const address = beside(this.path);
    if (this.token) address.searchParams.set("since", this.token);
    const source = new EventSource(address);
    this.source = source;
    source.addEventListener("open", () => {
      this.failures = 0;
      this.handlers.turned(true);
    });
    source.addEventListener("change", (event) => {
      this.token = event.lastEventId || this.token;
      const change = documentOf(event);
      if (change !== null && typeof change === "object") this.handlers.heard(change);
    });
    source.addEventListener("note", (event) => this.handlers.noted(documentOf(event)));
    source.addEventListener("missed", () => this.handlers.missed());
    source.addEventListener("error", () => this._failed(source));
  }

  // The browser takes up again by itself what was cut, but not what was refused.
  _failed(source) {
    if (source !== this.source) return;
    this.handlers.turned(false);
    if (source.readyState !== EventSource.CLOSED) return;
    this.close();
    this.failures++;
    this.again = setTimeout(() => this.open(), patienceS(this.failures) * 1000);
  }

  close() {
    clearTimeout(this.again);
    this.source?.close();
    this.source = null;
  }
}

// Null: half a line of a daemon that died.
function documentOf(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return null;
  }
}
