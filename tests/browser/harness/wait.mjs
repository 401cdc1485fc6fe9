// Waits for a condition and reports the last seen value when the condition does not become true.

/** Default time limit of `waitUntil`. If it is too short, tests fail on a slow machine. */
const TIMEOUT_MS = 15_000;
/** A client without a connection waits up to half a minute before it tries again. */
export const RECONNECT_MS = 45_000;

/** `check` returns whether the condition holds, and the value that it saw. */
export async function waitUntil(what, check, timeout_ms = TIMEOUT_MS) {
  const deadline = Date.now() + timeout_ms;
  for (;;) {
    const [holds, seen] = await check();
    if (holds) return;
    if (Date.now() > deadline) throw new Error(`timed out waiting until ${what}; last seen: ${JSON.stringify(seen)}`);
    await new Promise((resume) => setTimeout(resume, 20));
  }
}
