// The part of Web Locks that the library uses, for Node versions without them: exclusive locks,
// granted in request order, and released when the holder dies. Shared locks do not belong here.

type Callback = () => unknown;

interface LockRequest {
  readonly callback: Callback;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
}

export class FakeLocks {
  #holders = new Map<string, { release: () => void }>();
  #requests = new Map<string, LockRequest[]>();

  request(name: string, optionsOrCallback: { signal?: AbortSignal } | Callback, given?: Callback): Promise<unknown> {
    const callback = given ?? (optionsOrCallback as Callback);
    const { signal } = given ? (optionsOrCallback as { signal?: AbortSignal }) : {};
    return new Promise((resolve, reject) => {
      const request: LockRequest = { callback, signal, resolve, reject };
      signal?.addEventListener("abort", () => reject(signal.reason));
      this.#requests.set(name, [...(this.#requests.get(name) ?? []), request]);
      queueMicrotask(() => this.#next(name));
    });
  }

  #next(name: string): void {
    if (this.#holders.has(name)) return;
    const [request, ...rest] = this.#requests.get(name) ?? [];
    this.#requests.set(name, rest);
    if (!request) return;
    if (request.signal?.aborted) return this.#next(name);
    let isReleased = false;
    const release = (): void => {
      if (isReleased) return;
      isReleased = true;
      this.#holders.delete(name);
      this.#next(name);
    };
    this.#holders.set(name, { release });
    Promise.resolve(request.callback()).then(request.resolve, request.reject).finally(release);
  }

  /** The names of the held locks, in the order in which they were granted. */
  held(): string[] {
    return [...this.#holders.keys()];
  }

  /** Releases a lock, like a crash of the tab that holds it. */
  die(name: string): void {
    this.#holders.get(name)?.release();
  }
}
