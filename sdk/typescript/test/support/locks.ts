// Web Locks as far as the library uses them, for Node versions without: exclusive, in the order of asking, and a holder that
// dies lets go.

type Callback = () => unknown;

interface Wish {
  readonly callback: Callback;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

export class FakeLocks {
  #holders = new Map<string, { release: () => void }>();
  #wishes = new Map<string, Wish[]>();

  request(name: string, optionsOrCallback: { signal?: AbortSignal } | Callback, given?: Callback): Promise<unknown> {
    const callback = given ?? (optionsOrCallback as Callback);
    const { signal } = given ? (optionsOrCallback as { signal?: AbortSignal }) : {};
    return new Promise((resolve, reject) => {
      const wish: Wish = { callback, signal, resolve, reject };
      signal?.addEventListener("abort", () => reject(signal.reason));
      this.#wishes.set(name, [...(this.#wishes.get(name) ?? []), wish]);
      queueMicrotask(() => this.#next(name));
    });
  }

  #next(name: string): void {
    if (this.#holders.has(name)) return;
    const [wish, ...rest] = this.#wishes.get(name) ?? [];
    this.#wishes.set(name, rest);
    if (!wish) return;
    if (wish.signal?.aborted) return this.#next(name);
    let isOver = false;
    const release = (): void => {
      if (isOver) return;
      isOver = true;
      this.#holders.delete(name);
      this.#next(name);
    };
    this.#holders.set(name, { release });
    Promise.resolve(wish.callback()).then(wish.resolve, wish.reject).finally(release);
  }

  /** In the order in which they were taken. */
  held(): string[] {
    return [...this.#holders.keys()];
  }

  /** As if the tab that holds it had crashed. */
  die(name: string): void {
    this.#holders.get(name)?.release();
  }
}
