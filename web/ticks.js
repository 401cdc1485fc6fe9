// The tick beside one's own message, from its seq and how far its receivers have come. The server has the same rule, and
// both pass the cases in docs/ticks.json.

export function tickState(seq, delivered, read) {
  if (seq <= read) return "read";
  return seq <= delivered ? "delivered" : "sent";
}
