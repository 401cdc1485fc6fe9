// The state of a sent message: a clock, one tick, two ticks, two blue ticks, or a warning. Each has
// a label for screen readers.

import { t } from "../i18n/index.ts";
import type { TickState } from "../state/rows.ts";

const LABELS = {
  queued: "stateQueued",
  sending: "stateSending",
  sent: "stateSent",
  delivered: "stateDelivered",
  read: "stateRead",
  failed: "stateFailed",
} as const;

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
    <svg class="tick" classList={{ [props.state]: true }} viewBox="0 0 18 16" role="img" aria-label={t(LABELS[props.state])}>
      <path d={PATHS[props.state]} />
    </svg>
  );
}
