// The text of the scenario: kept on the server a moment after each change, and never lost between tabs.
import { api, sendLast } from "./api.js";

const SAVE_MS = 300; // after the last key, the text is kept

// then: changed(text), renamed(name), notice(words), conflict(isOpen), refresh().
export class Scenario {
  constructor(then) {
    this.then = then;
    this.text = "";
    this.name = "";
    this.edition = 0; // the newest of the server that the page knows; what is older comes late, and is left out
    this.unsaved = false;
    this.theirs = null; // what another tab wrote while this one was typing, until the user has decided
    this.sending = null; // the text that the server has been sent and has not answered
    this.saving = Promise.resolve();
    this.timer = null;
  }

  edit(text) {
    if (text === this.text) return;
    this.text = text;
    this.unsaved = true;
    this.then.changed(text);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), SAVE_MS);
  }

  // Keep the text now; resolves once the server has it. One request follows the other, since each names the edition it
  // changes.
  save() {
    clearTimeout(this.timer);
    this.saving = this.saving.then(() => this.put());
    return this.saving;
  }

  async put() {
    if (!this.unsaved || this.theirs) return;
    const sent = (this.sending = this.text);
    try {
      const answer = await api("PUT", "/api/scenario", { text: sent, edition: this.edition });
      this.edition = Math.max(this.edition, answer.edition);
      this.rename(answer.name);
      if (sent === this.text) this.unsaved = false;
    } catch (error) {
      if (error.status !== 409) this.then.notice(error.message);
      else if (error.answer.scenario === this.text) this.adopt({ ...error.answer, text: this.text });
      else this.ask(error.answer);
    } finally {
      this.sending = null;
    }
  }

  // Another tab has changed the scenario that was edited here: neither text is lost before the user has chosen.
  ask(theirs) {
    this.theirs = theirs;
    this.then.conflict(true);
  }
  decide(mine) {
    const found = this.theirs;
    this.theirs = null;
    this.then.conflict(false);
    if (mine) {
      this.edition = Math.max(this.edition, found.edition);
      this.unsaved = true;
      this.save();
    } else {
      this.adopt({ ...found, text: found.scenario });
      this.then.refresh();
    }
  }

  // Take a text that the server has: nothing is left to save.
  adopt(answer) {
    clearTimeout(this.timer);
    this.unsaved = false;
    this.edition = answer.edition;
    this.rename(answer.name);
    if (answer.text === this.text) return;
    this.text = answer.text;
    this.then.changed(this.text);
  }

  // Hear of the server's text. `begins`: the page has just connected; what it did not save while the server was away
  // goes first.
  receive(state, begins) {
    if (this.theirs) {
      if (state.edition >= this.theirs.edition) this.theirs = state;
    } else if (this.unsaved) {
      if (begins) this.save();
    } else {
      this.rename(state.name);
      if (begins || state.edition > this.edition) this.adopt({ ...state, text: state.scenario });
    }
  }

  rename(name) {
    this.name = name;
    this.then.renamed(name);
  }

  // The page is left: what was not sent yet is sent now.
  leave() {
    if (!this.unsaved || this.theirs) return;
    sendLast("PUT", "/api/scenario", { text: this.text, edition: this.edition, over: this.sending });
  }
}
