// Waiting for something to become true, and saying what was there when it did not.

const PATIENCE_MS = 15_000;
/** A client that was cut off may rest for half a minute before it tries again. */
export const RETURN_MS = 45_000;

/** `look` returns whether it holds and what was seen. */
export async function expectSoon(what, look, patience_ms = PATIENCE_MS) {
  const deadline = Date.now() + patience_ms;
  for (;;) {
    const [holds, seen] = await look();
    if (holds) return;
    if (Date.now() > deadline) throw new Error(`in vain: ${what}; seen instead: ${JSON.stringify(seen)}`);
    await new Promise((resume) => setTimeout(resume, 20));
  }
}
