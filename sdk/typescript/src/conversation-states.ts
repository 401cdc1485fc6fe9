// All conversations that this device knows, and the bound on the loaded messages of conversations
// without an open view. The rules of one conversation do not belong here.

import { ConversationState } from "./conversation-state.ts";

/** Upper bound on the conversations with loaded messages. It bounds memory. */
const KEPT_TIMELINES = 50;
/** Upper bound on the loaded messages of a conversation without an open view. It bounds memory. */
const CLOSED_TIMELINE = 100;

/** The conversations of one user, by id. */
export class ConversationStates {
  #byId = new Map<string, ConversationState>();
  /** The conversations with loaded messages, the least recently used first. */
  #used = new Set<ConversationState>();
  readonly userId: string;

  constructor(userId: string) {
    this.userId = userId;
  }

  get(id: string): ConversationState {
    let state = this.#byId.get(id);
    if (!state) {
      state = new ConversationState(id, this.userId);
      this.#byId.set(id, state);
    }
    return state;
  }

  known(id: string): ConversationState | undefined {
    return this.#byId.get(id);
  }

  all(): IterableIterator<ConversationState> {
    return this.#byId.values();
  }

  /**
   * Records that the timeline of a conversation changed, and evicts others. Each cut removes as
   * many messages as it keeps, so its cost is constant per message.
   */
  used(state: ConversationState): void {
    this.#used.delete(state);
    this.#used.add(state);
    const { timeline, openCount } = state;
    if (openCount === 0 && timeline.messages.length > 2 * CLOSED_TIMELINE && timeline.trim(CLOSED_TIMELINE, "newer")) state.invalidate();
    if (this.#used.size <= KEPT_TIMELINES) return;
    for (const oldest of this.#used) {
      if (oldest.openCount > 0) continue;
      this.#used.delete(oldest);
      oldest.timeline.clear();
      oldest.isRestored = false;
      oldest.invalidate();
      if (this.#used.size <= KEPT_TIMELINES) return;
    }
  }

  /**
   * Evicts messages after the last view closed. A window that does not follow the head is dropped.
   */
  cut(state: ConversationState): void {
    const { timeline } = state;
    if (timeline.isLive) timeline.trim(CLOSED_TIMELINE, "newer");
    else timeline.clear();
    if (timeline.messages.length === 0) state.isRestored = false;
    state.invalidate();
  }

  clear(): void {
    for (const state of this.#byId.values()) state.reset();
    this.#used.clear();
  }
}
