// The tick of one of the user's own messages, from its seq and the read state of the receivers. The
// server has the same rule, and both pass the cases in docs/ticks.json. How read states move does
// not belong here.

/**
 * Returns the tick. `delivered` and `read` are the read state of the receivers; in a group, the
 * lowest of its members.
 */
export function tickState(seq: number, delivered: number, read: number): "sent" | "delivered" | "read" {
  if (seq <= read) return "read";
  return seq <= delivered ? "delivered" : "sent";
}
