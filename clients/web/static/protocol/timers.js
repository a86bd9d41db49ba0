/** Timers by name: setting one again replaces it. */
export class NamedTimers {
  #timers = new Map();

  has(name) {
    return this.#timers.has(name);
  }

  set(name, milliseconds, callback) {
    this.cancel(name);
    const fire = () => {
      this.#timers.delete(name);
      callback();
    };
    this.#timers.set(name, setTimeout(fire, milliseconds));
  }

  cancel(name) {
    clearTimeout(this.#timers.get(name));
    this.#timers.delete(name);
  }

  clear() {
    for (const name of [...this.#timers.keys()]) this.cancel(name);
  }
}
