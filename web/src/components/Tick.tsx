// The clock, the tick, the double tick and the blue one. Each has a word for those who do not see it.

import type { TickState } from "../state/rows.ts";

const WORDS: Record<TickState, string> = {
  queued: "Waiting to be sent",
  sending: "Sending",
  sent: "Sent",
  delivered: "Delivered",
  read: "Read",
  failed: "Not sent",
};

const PATHS: Record<TickState, string> = {
  queued: "M9 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM9 5v3.200l2.1 1.3",
  sending: "M9 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM9 5v3.200l2.1 1.3",
  sent: "M4.5 8.500l3 3 6.5-7",
  delivered: "M1.5 8.500l3 3 6.5-7M8.2 11l.5.5 6.5-7",
  read: "M1.5 8.500l3 3 6.5-7M8.2 11l.5.5 6.5-7",
  failed: "M9 2.500a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM9 5v3.500M9 10.900v.1",
};

export function Tick(props: { state: TickState }) {
  return (
    <svg class="tick" classList={{ [props.state]: true }} viewBox="0 0 18 16" role="img" aria-label={WORDS[props.state]}>
      <path d={PATHS[props.state]} />
    </svg>
  );
}
