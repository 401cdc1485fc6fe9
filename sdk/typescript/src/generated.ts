// Generated from docs/openapi.json and docs/websocket.json by scripts/generate.mjs. Do not edit.

export type AddMembersRequest = {
  /**
   * Who joins: each a user_id of 1 to 128 bytes, without spaces, control characters or format
   * characters. Those already in are passed over.
   */
  members?: string[];
  /** The same for a single person. */
  user_id?: string | null;
};

/** What lies where, and what is being done about it. */
export type ArchiveBody = {
  cold: ColdBody;
  /** Whether there is an archive to move messages to. */
  engine_on: boolean;
  /** What the tables take on the disk. */
  hot_file_bytes: number;
  /** How much of that is free for reuse. */
  hot_free_bytes: number;
  job: JobBody | null;
  /** Conversations that were brought back to stay. */
  kept_hot: number;
  last_job: JobBody | null;
  /** Milliseconds since the Unix epoch. */
  last_run_at: number | null;
  /** Why the last run stopped before its end; null when it did not. */
  paused: string | null;
  /** Where segments go, in words; empty when the archive is off. */
  place: string;
  /**
   * Erasures that were accepted and are not finished: the server tries again at its next
   * scheduled run and at its next start.
   */
  unfinished_erasures: number;
};

/** What to move. Everything old enough, where nothing is said. */
export type ArchiveRunRequest = {
  /** This conversation alone, also where it was brought back to stay. */
  conversation_id?: string | null;
  /** Also what does not fill a segment yet. */
  partial?: boolean | null;
};

/** What a backup holds. */
export type BackupReportBody = {
  accounts: number;
  /** Of these, those whose content lies in the archive, which is not copied. */
  archived_messages: number;
  bytes: number;
  conversations: number;
  /** Rows that were damaged before they were copied; `bluetick check` names them. */
  damaged_rows: number;
  messages: number;
  /** Parts, the manifest included. */
  objects: number;
  /** Where it is. */
  place: string;
  took_ms: number;
  /** Whether the keys that the server made for itself are in it. */
  with_keys: boolean;
};

/** Where a backup goes. */
export type BackupRequest = {
  /** Whether the keys that the server made for itself go along; into a directory and not into a bucket where nothing is said. */
  keys?: boolean | null;
  /** A directory on the server's machine, by its whole path, or `s3://bucket/prefix`. Nothing may be there yet. */
  to: string;
};

/** The two boundaries a tick is drawn from: everything up to here was delivered, and up to there read. */
export type BoundariesBody = {
  last_delivered_seq: number;
  last_read_seq: number;
};

/** What lies in the archive, or was moved there. */
export type ColdBody = {
  /** In the object store. */
  bytes: number;
  messages: number;
  /** Before compression. */
  raw_bytes: number;
  segments: number;
};

/** A conversation as one of its members sees it. */
export type ConversationBody = {
  conversation_id: string;
  /** Milliseconds since the Unix epoch. */
  created_at: number;
  created_by: string;
  /** The newest message; 0 while there is none. */
  head_seq: number;
  kind: KindBody;
  /** When the newest message came in, or when the conversation was made. */
  last_at: number;
  member_count: number;
  members: MemberBody[];
  /** The other person of a direct conversation; null in groups. */
  peer: string | null;
  /** Null in direct conversations. */
  title: string | null;
};

/** A conversation, who is in it, and what it is to whoever asks. */
export type ConversationDetailBody = ConversationBody & OwnPartBody;

export type EraseReportBody = {
  conversations: number;
  messages: number;
  segments_deleted: number;
  segments_rewritten: number;
  took_ms: number;
};

/**
 * What to delete for good: all that a conversation holds, all that a user wrote, or with both what that user wrote in
 * that conversation.
 */
export type ErasureRequest = {
  conversation_id?: string | null;
  /** Only up to this place of the conversation; all there is where it is not given. */
  through_seq?: number | null;
  user_id?: string | null;
};

export type ErrorBody = {
  error: ErrorDetail;
};

export type ErrorDetail = {
  /** For programs: one of a fixed table, which says what to do. */
  code: string;
  /** For people. */
  message: string;
};

export type HealthBody = {
  status: string;
};

/** One line of an inbox. */
export type InboxEntryBody = {
  archived: boolean;
  conversation_id: string;
  /** The first message the reader can see. */
  first_seq: number;
  kind: KindBody;
  /**
   * When a message last came in, or when the conversation was made. The inbox is in this order, the latest first. A
   * server clock that was set back does not take it back.
   */
  last_at: number;
  last_message: LastMessageBody | null;
  /** The newest place that is taken, be it by a void; 0 while there is none. */
  last_seq: number;
  member_count: number;
  muted: boolean;
  /** How far the reader has come. */
  my_status: BoundariesBody;
  /** The other person of a direct conversation; null in groups. */
  peer: string | null;
  peer_presence: PresenceBody | null;
  /**
   * How far the other has come; in a group, the member furthest behind. With it the tick of one's own messages is
   * drawn.
   */
  peer_status: BoundariesBody;
  pinned: boolean;
  /** The beginning of the newest message, cut at a character; empty for a notice, or while there is no message. */
  preview: string;
  /** Whether the others are told what the reader has read. */
  read_receipts: boolean;
  /** Null in direct conversations. */
  title: string | null;
  /** Messages by others above `my_status.last_read_seq`; notices and voids do not count. */
  unread: number;
};

/**
 * One page of an inbox. A conversation that gets a message while you page moves to the front: it is on no later page,
 * and its message is pushed to whoever is connected. One that you pin, unpin, archive or unarchive meanwhile moves as
 * well, and may be met twice or not at all. All others are on exactly one page.
 */
export type InboxPageBody = {
  /** Pinned first, archived last; within each, the latest activity first. */
  conversations: InboxEntryBody[];
  /** `cursor` of the next page; null on the last. */
  next_cursor: string | null;
};

/** The job that was begun. */
export type JobBegunBody = {
  /** For `GET /v1/archive/jobs/{job_id}`. */
  job_id: string;
};

/** A job of the archive, from its start on. */
export type JobBody = {
  /** How far it has come in this stage. */
  done: number;
  /** Why it ended before it was done. What it did so far stays; the same job can be given again. */
  error: string | null;
  /** Milliseconds since the Unix epoch; null while it is under way. */
  finished_at: number | null;
  job_id: string;
  kind: JobKind;
  report: ReportBody | null;
  stage: StageBody | null;
  /** Milliseconds since the Unix epoch. */
  started_at: number;
  /** How much there is in this stage, as far as that is known. */
  total: number;
};

export type JobKind = "run" | "verify" | "restore" | "erase" | "backup";

export type KindBody = "direct" | "group";

/** The newest message, its content cut short at a character. */
export type LastMessageBody = {
  /** At most 120 bytes of it; notices are whole. */
  content: string;
  content_type: string;
  message_id: string;
  received_at: number;
  sender_id: string;
  seq: number;
  timestamp: number;
};

export type LoginRequest = {
  password: string;
  /** 1 to 128 bytes of UTF-8, without spaces, control characters or format characters. */
  user_id: string;
};

/** How far to log out. */
export type LogoutRequest = {
  /** All tokens of the user, and not only the one of this call. */
  everywhere?: boolean;
};

/**
 * Everything up to this seq was delivered, or read. Above the newest message it counts as that; what is late or
 * repeated changes nothing.
 */
export type MarkRequest = {
  seq: number;
};

export type MemberBody = {
  /** The first seq this member sees. */
  joined_seq: number;
  role: RoleBody;
  user_id: string;
};

/** How far somebody has come. */
export type MemberStatusBody = {
  /**
   * The first seq the member sees. What lies below does not concern it: for the tick of a group message, take the
   * later of each boundary and the place before this.
   */
  joined_seq: number;
  last_delivered_seq: number;
  last_read_seq: number;
  user_id: string;
};

/** A stored message. */
export type MessageBody = {
  /** For `system` notices, JSON that says what happened. */
  content: string;
  /**
   * `text`, `system` for notices by the server, or what the sender called it. Without content: `erased`, when it was
   * deleted for good, and `lost`, when the part of the archive it is in cannot be read. `void` is nobody's message: a
   * place that was given out and never written to, by the sender `void`. A client counts it, so that nothing seems to
   * be missing, acknowledges it with those around it, and never shows it.
   */
  content_type: string;
  conversation_id: string;
  message_id: string;
  /** The server's clock, in milliseconds since the Unix epoch. */
  received_at: number;
  /** The other person of a direct conversation; null in groups. */
  receiver_id: string | null;
  sender_id: string;
  /** The place in the conversation: 1 for the first, then dense. The only order. */
  seq: number;
  /** The sender's clock, in milliseconds since the Unix epoch. Shown, never used for order. */
  timestamp: number;
};

/** A token for a user of the operator's own product; the user needs no account here. */
export type MintRequest = {
  /**
   * How long the token is valid, in seconds; the server's usual time where it is not given. More than the operator
   * allows is refused, and the message says how much that is.
   */
  ttl_s?: number | null;
  /** 1 to 128 bytes of UTF-8, without spaces, control characters or format characters. */
  user_id: string;
};

export type NewPasswordRequest = {
  /**
   * At least `password_min_length` of `GET /v1/server` (8 by default), at most 1,024 bytes of UTF-8;
   * characters beyond ASCII take two to four. Very common passwords and the user_id itself are refused.
   */
  password: string;
};

/** A chat with one other person, or a group. */
export type OpenConversationRequest = {
  kind: "direct";
  /** 1 to 128 bytes of UTF-8, without spaces, control characters or format characters. */
  peer: string;
} | ({
  kind: "group";
  /**
   * The others: each a user_id of 1 to 128 bytes, without spaces, control characters or format
   * characters.
   */
  members?: string[] | null;
  /** 1 to 256 bytes of UTF-8. Bidi controls are removed. */
  title: string;
});

/** What a conversation is to whoever asks: the same as in the inbox. */
export type OwnPartBody = {
  archived: boolean;
  muted: boolean;
  /** How far the reader has come. */
  my_status: BoundariesBody;
  /** How far the other has come; in a group, the member furthest behind. */
  peer_status: BoundariesBody;
  pinned: boolean;
  /** Whether the others are told what the reader has read. */
  read_receipts: boolean;
  /** Messages by others above `my_status.last_read_seq`; notices and voids do not count. */
  unread: number;
};

/** Where one stands after a mark. */
export type OwnStatusBody = {
  conversation_id: string;
  last_delivered_seq: number;
  last_read_seq: number;
  user_id: string;
};

/**
 * One page of history: a range of consecutive seqs, and where its neighbours begin. A page may hold fewer than
 * `limit` messages when they are large; go on with the cursor, which is null only where there is no more.
 */
export type PageBody = {
  /** The newest message of the conversation. */
  head_seq: number;
  /** Newest first; oldest first when asked with `after_seq`. */
  messages: MessageBody[];
  /** `after_seq` of the page above; null where there is none. */
  next_after_seq: number | null;
  /** `before_seq` of the page below; null where there is none. */
  next_before_seq: number | null;
};

export type PeopleBody = {
  people: PersonBody[];
};

/** Somebody, as everybody here sees them. */
export type PersonBody = {
  display_name: string | null;
  user_id: string;
};

/** Where a device is in a conversation: everything up to a seq, in the epoch of the welcome; or the seq alone. */
export type Position = ({
  epoch?: number | null;
  seq: number;
}) | number;

/** What a member sets for itself in one conversation. What is not named stays as it is. */
export type PreferenceRequest = {
  archived?: boolean | null;
  muted?: boolean | null;
  pinned?: boolean | null;
  /**
   * False: what is read from now on is not told to the others. Once it is true again, the next `read` tells
   * everything up to its seq.
   */
  read_receipts?: boolean | null;
};

/** Whether somebody is there, or when it last was. Of somebody who hides it: not there, never seen. */
export type PresenceBody = {
  /** When the last connection ended, in milliseconds since the Unix epoch; null where it is not known or not told. */
  last_seen_at: number | null;
  online: boolean;
  user_id: string;
};

/** Those of a conversation of whom something can be told. */
export type PresencesBody = {
  members: PresenceBody[];
};

export type ProfileBody = {
  display_name: string | null;
  show_presence: boolean;
  user_id: string;
};

/** What a user sets for itself, everywhere. */
export type ProfileRequest = {
  /** What others see beside the user_id: 1 to 128 bytes of UTF-8. Bidi controls are removed. */
  display_name?: string | null;
  /** False: nobody is told whether the user is there or when it was. */
  show_presence?: boolean | null;
};

export type ReadyBody = {
  /** Why it is not ready. */
  reason: string | null;
  /** `ready` or `not_ready`. */
  status: string;
};

/** Who has one message: its sender does not count, nor those who joined later. */
export type ReceiptsBody = {
  delivered_count: number;
  read_count: number;
  recipient_count: number;
  seq: number;
};

/** What a job did, each kind in its own words. */
export type ReportBody = BackupReportBody | RunReportBody | VerifyReportBody | EraseReportBody | RestoreReportBody;

export type RestoreReportBody = {
  messages: number;
  segments: number;
  took_ms: number;
};

/** What to bring back to the hot store: one conversation, or all that lie in the archive. */
export type RestoreRequest = {
  /** All of them, which empties the archive. */
  all?: boolean | null;
  conversation_id?: string | null;
};

export type RoleBody = "admin" | "member";

export type RunReportBody = {
  /** How many conversations something was moved out of. */
  conversations: number;
  /** Messages erased: past their retention, or left over from an erasure that was interrupted. */
  erased_messages: number;
  hot_file_bytes_after: number;
  hot_file_bytes_before: number;
  moved: ColdBody;
  orphans_swept: number;
  took_ms: number;
};

/** A message to store. Sending it again with the same message_id is safe. */
export type SendRequestBody = {
  /**
   * With `retry`: everything up to this seq was known at the first attempt, so the message is looked for above it.
   * Above 9007199254740991 counts as that.
   */
  after_seq?: number | null;
  content: string;
  /**
   * What the content is, in the client's own words; `text` where it is not given. Visible ASCII; `system`,
   * `erased`, `lost` and `void` are the server's own.
   */
  content_type?: string | null;
  /**
   * Made by the client before the first attempt; unique within the conversation and the sender. A UUIDv7 suits.
   * Visible ASCII; names that start with `system:` are the server's own.
   */
  message_id: string;
  /** This is a resend. */
  retry?: boolean | null;
  /** The sender's clock, in milliseconds since the Unix epoch; the server's own where it is not given. */
  timestamp?: number | null;
};

/** Where the message is. */
export type SentBody = {
  conversation_id: string;
  /** It was stored by an earlier attempt; this is its place. */
  duplicate: boolean;
  message_id: string;
  /** The server's clock, in milliseconds since the Unix epoch. */
  received_at: number;
  seq: number;
};

/** What a server offers. */
export type ServerBody = {
  /** The largest content of one message, in bytes; 0: there is no limit. */
  content_bytes: number;
  /** Whether people log in here. Otherwise their tokens come from the operator's own product. */
  login: boolean;
  /** The minimum length of a new password, in bytes. */
  password_min_length: number;
  /** Whether people can make an account. */
  signup: boolean;
  version: string;
};

/** A new account. */
export type SignupRequest = {
  /** 1 to 128 bytes of UTF-8. Bidi controls are removed. */
  display_name?: string | null;
  /**
   * At least `password_min_length` of `GET /v1/server` (8 by default), at most 1,024 bytes of UTF-8;
   * characters beyond ASCII take two to four. Very common passwords and the user_id itself are refused.
   */
  password: string;
  /**
   * 1 to 128 bytes of UTF-8 in normal form (NFKC), without spaces, control characters or format
   * characters. Names that look like one in use are refused.
   */
  user_id: string;
};

/**
 * What is counted in each stage: conversations while moving and erasing, objects while sweeping, bytes of tables
 * while compacting and copying, segments while verifying and restoring, parts of a backup while reading back, rows while
 * checking.
 */
export type StageBody = "moving" | "sweeping" | "compacting" | "verifying" | "restoring" | "erasing" | "copying" | "reading_back" | "checking";

/** How far everybody has come; asked with `seq`, how many have that message. */
export type StatusBody = StatusesBody | ReceiptsBody;

/** How far everybody has come. */
export type StatusesBody = {
  head_seq: number;
  /** Every member, sorted by name; 0 where somebody has said nothing yet. */
  members: MemberStatusBody[];
};

/** A token, for the `Authorization` header and the hello frame. */
export type TokenBody = {
  /** Milliseconds since the Unix epoch. */
  expires_at: number;
  token: string;
  user_id: string;
};

export type UserBody = {
  /** Milliseconds since the Unix epoch. */
  created_at: number;
  display_name: string | null;
  /** Whether the user can log in here. */
  has_password: boolean;
  user_id: string;
};

export type VerifyReportBody = {
  checked: ColdBody;
  /** How many segments are not as they should be. */
  problem_count: number;
  /** A sentence for each of them, the first thousand. */
  problems: string[];
  took_ms: number;
};

/** The message is stored. On the connection it was sent on, this stands in the message's place in the order. */
export type AckFrame = {
  type: "ack";
} & SentBody;

/**
 * In the backlog: more of this conversation was missed than is sent by itself. Page on with `after_seq`; the next
 * message that is pushed has a seq above `head_seq`. (Acks of one's own sends, and the notice of one's own leaving,
 * may still come for places below.)
 */
export type BacklogFrame = {
  conversation_id: string;
  head_seq: number;
  next_after_seq: number;
  type: "backlog";
};

/**
 * The backlog is complete; what follows is live. The backlog is messages alone: ticks, settings and membership that
 * changed meanwhile are in the inbox (`GET /v1/conversations`).
 */
export type CaughtUpFrame = {
  type: "caught_up";
};

/**
 * The server shuts down and closes the connection with 1012 right after. Come back after this long; the server spreads
 * its clients over time by it.
 */
export type ComeBackFrame = {
  after_ms: number;
  type: "come_back";
};

/** A conversation is new to the user, or the user set something about it: its line of the inbox as it is now. */
export type ConversationFrame = {
  type: "conversation";
} & InboxEntryBody;

/**
 * Everything in the conversation up to this seq was delivered to the device (`delivered`), or read by the person
 * (`read`).
 */
export type DeliveredFrame = {
  conversation_id: string;
  seq: number;
  type: "delivered";
};

/** Something was refused. The connection lives. */
export type ErrorFrame = {
  /** For programs: one of the table of error codes. */
  code: string;
  /** The conversation a refused `delivered`, `read` or `typing` is about. */
  conversation_id?: string | null;
  /** For people. */
  message: string;
  /** The message it is about, where it is about one. */
  message_id?: string | null;
  type: "error";
};

/**
 * You are not in this conversation, or not any more; said of a position in `hello`, and when you leave while its
 * backlog is being sent. What was missing of it is not there to be paged.
 */
export type GoneFrame = {
  conversation_id: string;
  type: "gone";
};

/** The first frame of a connection. */
export type HelloFrame = {
  /** Names the device. Accepted and not used yet. */
  device_id?: string | null;
  /**
   * What the device has, by conversation: everything up to a seq. It is sent what lies above, whatever other devices
   * of the user have; and as if it had said `delivered`, it has said so. Of conversations it does not name it is
   * sent what no device of the user has acknowledged, or else the newest page of those with activity after the
   * newest position. Without any position only what is not acknowledged. A position of another epoch is passed over;
   * one in a conversation the user is not in is answered with `gone`.
   */
  positions?: Record<string, Position> | null;
  token: string;
  type: "hello";
};

/** A message has been stored by somebody else, or on another connection of one's own. */
export type MessageFrame = {
  type: "message";
} & MessageBody;

/** Asks for a pong. */
export type PingFrame = {
  type: "ping";
};

export type PongFrame = {
  type: "pong";
};

/** Somebody one talks with has come or gone. Told for one's latest direct conversations; of others, ask. */
export type PresenceFrame = {
  type: "presence";
} & PresenceBody;

/**
 * Everything in the conversation up to this seq was delivered to the device (`delivered`), or read by the person
 * (`read`).
 */
export type ReadFrame = {
  conversation_id: string;
  seq: number;
  type: "read";
};

/**
 * How far all other members of a group have come: in groups of more than 16 members, whenever that has changed, to the
 * people who get a `status` there, and in its place when many moved; in any group when somebody leaves and those who are
 * left have come further.
 */
export type ReceiptsFrame = {
  conversation_id: string;
  /** Everything up to here is delivered to all others. */
  last_delivered_seq: number;
  /** Everything up to here is read by all others. */
  last_read_seq: number;
  type: "receipts";
};

/** A message to store, as over HTTP, with its conversation. */
export type SendFrame = {
  /** With `retry`: everything up to this seq was known at the first attempt. */
  after_seq?: number | null;
  content: string;
  /** `text` where it is not given; `system`, `erased`, `lost` and `void` are the server's own. */
  content_type?: string | null;
  conversation_id: string;
  message_id: string;
  /** This is a resend. */
  retry?: boolean | null;
  /** The sender's clock, in milliseconds since the Unix epoch. */
  timestamp?: number | null;
  type: "send";
};

/**
 * Somebody has got or read more of a conversation. To the other devices of the one who did, and to the other members:
 * in conversations of up to 16 members to all of them at once; in larger ones within a quarter of a second, as long as
 * it is not more than 8 who moved, to those who sent one of the last 100 messages or wait for the tick of an earlier
 * one.
 */
export type StatusFrame = {
  conversation_id: string;
  last_delivered_seq: number;
  last_read_seq: number;
  type: "status";
  /** On one's own devices: how many messages are unread now, where that was at hand. Otherwise the inbox tells. */
  unread?: number | null;
  user_id: string;
};

/** The person is writing something. Say it again every few seconds while it lasts. */
export type TypingByClientFrame = {
  conversation_id: string;
  type: "typing";
};

/** Somebody is writing. It lasts a few seconds unless it is said again. */
export type TypingByServerFrame = {
  conversation_id: string;
  type: "typing";
  user_id: string;
};

/** The answer to a hello. */
export type WelcomeFrame = {
  /** A client that knew another epoch drops what it has cached. */
  epoch: number;
  /** Milliseconds since the Unix epoch. */
  server_time: number;
  /** Names this connection in the server's logs. */
  session_id: string;
  type: "welcome";
  user_id: string;
};

/** What a client sends. */
export type ClientFrame =
  | HelloFrame
  | SendFrame
  | DeliveredFrame
  | ReadFrame
  | TypingByClientFrame
  | PingFrame;

/** What a server sends. */
export type ServerFrame =
  | WelcomeFrame
  | BacklogFrame
  | GoneFrame
  | CaughtUpFrame
  | ComeBackFrame
  | MessageFrame
  | AckFrame
  | StatusFrame
  | ReceiptsFrame
  | ConversationFrame
  | TypingByServerFrame
  | PresenceFrame
  | PongFrame
  | ErrorFrame;

/** The table of error codes. */
export type ErrorCode =
  | "invalid_request"
  | "invalid_frame"
  | "unknown_type"
  | "unauthenticated"
  | "token_expired"
  | "token_revoked"
  | "invalid_credentials"
  | "signup_disabled"
  | "login_disabled"
  | "not_an_admin"
  | "origin_not_allowed"
  | "not_found"
  | "conversation_not_found"
  | "user_not_found"
  | "unknown_user"
  | "message_not_found"
  | "member_not_found"
  | "method_not_allowed"
  | "request_timeout"
  | "user_exists"
  | "name_reserved"
  | "message_id_conflict"
  | "direct_is_fixed"
  | "group_full"
  | "archive_off"
  | "archive_busy"
  | "content_too_large"
  | "body_too_large"
  | "host_not_allowed"
  | "upgrade_required"
  | "rate_limited"
  | "internal"
  | "store_unavailable"
  | "audit_unavailable"
  | "archive_unavailable"
  | "overloaded"
  | "too_many_connections"
  | "draining";

/** After these the same request may succeed later. */
export const RETRY_CODES: readonly string[] = [
  "request_timeout",
  "archive_busy",
  "rate_limited",
  "internal",
  "store_unavailable",
  "audit_unavailable",
  "archive_unavailable",
  "overloaded",
  "too_many_connections",
  "draining",
];
