// The public entry point for browsers. Node applications import `@bluetick/client/node`, which adds
// a WebSocket and a file storage. Implementations do not belong here.

export { logIn, logOut, serverOffer, signUp } from "./api.ts";
export type { Credentials, ServerOffer } from "./api.ts";
export { BluetickClient } from "./client.ts";
export { Conversation } from "./conversation.ts";
export { BluetickError } from "./errors.ts";
export type { ErrorCode } from "./generated.ts";
export { Inbox } from "./inbox.ts";
export { People } from "./people.ts";
export { indexedDbStorage } from "./storage/indexed-db.ts";
export { memoryStorage } from "./storage/memory.ts";
export type { Storage, StorageChange, StorageKind } from "./storage/storage.ts";
export { absenceOf, readNotice } from "./conversation-state.ts";
export type { Notice } from "./conversation-state.ts";
export { tickState } from "./ticks.ts";
export type * from "./types.ts";
