// The text of the scenario while it is drawn and typed: undo and redo, and changes that the server makes one after
// another.

const CHECK_MS = 250; // after the last key, the text is checked
const FLUSH_MS = 150; // after a stroke, the text follows
const MOST_KEPT = 300; // texts to go back to

// then: changed(text), typed(text), checked(answer), failed(message), cells().
export class Draft {
  constructor(api, then) {
    this.api = api;
    this.then = then;
    this.text = "";
    this.past = [];
    this.future = [];
    this.version = 0; // an answer about an older one is left out
    this.dirty = false; // cells were painted that the text does not have yet
    this.missed = false; // an answer came during a stroke, which goes first
    this.waiting = null; // the timer of the check after typing
    this.flushing = null;
    this.last = Promise.resolve();
  }

  // Every change of the text but typing goes through here.
  set(text, { remember = true } = {}) {
    if (text === this.text) return;
    if (remember && this.text) this.remember();
    this.text = text;
    this.version++;
    this.then.changed(text);
  }
  remember() {
    this.past.push(this.text);
    this.future = [];
    if (this.past.length > MOST_KEPT) this.past.shift();
  }
  type(text) {
    if (this.past.at(-1) !== this.text && this.waiting === null) this.remember();
    this.text = text;
    this.version++;
    this.then.typed(text);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      this.waiting = null;
      this.check();
    }, CHECK_MS);
  }
  undo() {
    return this.step(this.past, this.future);
  }
  redo() {
    return this.step(this.future, this.past);
  }
  async step(from, to) {
    await this.flushing;
    await this.last;
    if (!from.length) return;
    to.push(this.text);
    this.set(from.pop(), { remember: false });
    this.check();
  }

  async check() {
    const mine = this.version;
    try {
      const answer = await this.api("POST", "/api/check", { text: this.text });
      if (mine === this.version) this.then.checked(answer);
    } catch (error) {
      this.then.failed(error.message);
    }
  }

  // Changes are asked for one after another: each starts from the answer to the one before it.
  inTurn(ask) {
    this.last = this.last.then(ask).catch((error) => {
      this.then.failed(error.message);
      this.check();
    });
    return this.last;
  }
  // Painting: the drawing in the text follows a moment later.
  painted() {
    this.dirty = true;
    this.flushing ||= new Promise((done) => setTimeout(done, FLUSH_MS)).then(() => {
      this.flushing = null;
      return this.inTurn(() => this.flush());
    });
  }
  async flush() {
    while (this.dirty) {
      this.dirty = this.missed = false;
      const mine = this.version;
      const answer = await this.api("POST", "/api/change", { text: this.text, cells: this.then.cells() });
      if (mine !== this.version) return this.check(); // the text was changed meanwhile, and goes first
      this.take(answer);
    }
  }
  async change(changes, cells, shape) {
    await this.flushing;
    await this.inTurn(async () => {
      for (;;) {
        const mine = this.version;
        const answer = await this.api("POST", "/api/change", { text: this.text, changes, cells, shape });
        if (mine !== this.version) continue; // the text was changed meanwhile: the same change of that
        if (cells) this.dirty = false; // of cells that are no more
        return this.take(answer);
      }
    });
  }
  take(answer) {
    this.set(answer.text);
    this.then.checked(answer);
  }
}
