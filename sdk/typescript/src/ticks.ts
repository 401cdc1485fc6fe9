// The tick beside one's own message, from its seq and how far its receivers have come. The server has the same rule, and
// both pass the cases in docs/ticks.json.

/** `delivered` and `read` are the boundaries of the receivers; in a group, the lowest among them. */
export function tickState(seq: number, delivered: number, read: number): "sent" | "delivered" | "read" {
  if (seq <= read) return "read";
  return seq <= delivered ? "delivered" : "sent";
}
