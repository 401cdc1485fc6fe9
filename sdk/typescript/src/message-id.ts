// Allocates message ids before the first attempt to send: UUIDv7, whose text sorts by time. The
// server's seqs do not belong here.

let last_ms = 0;
let count = 0;

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");

/**
 * Returns a new id. The ids of one process are in order, even within a millisecond and after the
 * clock was set back.
 */
export function newMessageId(now_ms: number): string {
  count = now_ms > last_ms ? 0 : count + 1;
  if (count > 0xfff) {
    last_ms += 1;
    count = 0;
  }
  last_ms = Math.max(last_ms, now_ms);
  const time = hex(last_ms, 12);
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(8));
  const random = Array.from(bytes, (byte) => hex(byte, 2)).join("");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(count, 3)}-8${random.slice(1, 4)}-${random.slice(4)}`;
}
