// Requests to the daemon with a timeout, and a stream of events that reconnects with a backoff.

const ANSWER_S_MAX = 10;
const BACKOFF_S = [1, 2, 4, 8, 15, 30]; // seconds until the next try

// A URL relative to this page, so that it works behind any proxy and prefix.
function urlOf(path) {
  return new URL(path, document.baseURI);
}

// {document}, or {error}: one sentence, or {cancelled: true} after `signal`. Throws for no failure of the daemon.
export async function ask(path, { seconds = ANSWER_S_MAX, signal = null } = {}) {
  const request = new AbortController();
  const abort = () => request.abort();
  const timer = setTimeout(abort, seconds * 1000);
  signal?.addEventListener("abort", abort);
  try {
    const response = await fetch(urlOf(path), { signal: request.signal, cache: "no-store" });
    const text = await response.text();
    if (response.ok) return { document: JSON.parse(text) };
    return { error: sentenceOf(text) ?? `the daemon answered with status ${response.status}` };
  } catch (error) {
    if (signal?.aborted) return { cancelled: true };
    if (request.signal.aborted) return { error: `no answer within ${seconds} s` };
    if (error instanceof SyntaxError) return { error: "the answer is not a valid document" };
    return { error: "no answer" };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
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

export function backoffS(failures) {
  return BACKOFF_S[Math.min(failures, BACKOFF_S.length) - 1] ?? 0;
}

// The daemon's server-sent events (WHATWG HTML, 9.2). Handlers: `onChange(change)`, `onNote(sentence or null)`,
// `onMissed()` and `onState(open)`.
export class Stream {
  constructor(path, { onChange, onNote, onMissed, onState }) {
    this.path = path;
    this.handlers = { onChange, onNote, onMissed, onState };
    this.source = null;
    this.token = ""; // of the last event, or an earlier one
    this.failures = 0;
    this.timer = null;
  }

  open() {
    if (this.source) return;
    clearTimeout(this.timer);
    const address = urlOf(this.path);
    if (this.token) address.searchParams.set("since", this.token);
    const source = new EventSource(address);
    this.source = source;
    source.addEventListener("open", () => {
      this.failures = 0;
      this.handlers.onState(true);
    });
    source.addEventListener("change", (event) => {
      this.token = event.lastEventId || this.token;
      const change = documentOf(event);
      if (change !== null && typeof change === "object") this.handlers.onChange(change);
    });
    source.addEventListener("note", (event) => this.handlers.onNote(documentOf(event)));
    source.addEventListener("missed", () => this.handlers.onMissed());
    source.addEventListener("error", () => this._failed(source));
  }

  // The browser reconnects a broken stream, but not a refused one.
  _failed(source) {
    if (source !== this.source) return;
    this.handlers.onState(false);
    if (source.readyState !== EventSource.CLOSED) return;
    this.close();
    this.failures++;
    this.timer = setTimeout(() => this.open(), backoffS(this.failures) * 1000);
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }
}

// Null: an incomplete line.
function documentOf(event) {
  try {
    return JSON.parse(event.data);
  } catch {
    return null;
  }
}
