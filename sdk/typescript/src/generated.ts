// Generated from docs/openapi.json and docs/websocket.json by scripts/generate.mjs. Do not edit.

/** Users to add to a group: `members`, `user_id`, or both. */
export type AddMembersRequest = {
  /**
   * The users to add. Each is a user_id of 1 to 128 bytes, without spaces, control characters or
   * format characters. Users who are members already are ignored.
   */
  members?: string[];
  /** A single user to add. */
  user_id?: string | null;
};

/** The state of the archive and its jobs. */
export type ArchiveBody = {
  /** The amount of archived data. */
  cold: ColdBody;
  /** Whether the archive is enabled. */
  engine_on: boolean;
  /** The size of the table file on disk, in bytes. */
  hot_file_bytes: number;
  /** The part of `hot_file_bytes` that is free for reuse, in bytes. */
  hot_free_bytes: number;
  job: JobBody | null;
  /** The number of conversations that a restore keeps out of the archive. */
  kept_hot: number;
  last_job: JobBody | null;
  /** The time of the last run, in milliseconds since the Unix epoch; null if there was none. */
  last_run_at: number | null;
  /** Why the last run stopped early; null if it did not. */
  paused: string | null;
  /** The destination of segments, for display. Empty if the archive is disabled. */
  place: string;
  /**
   * The number of accepted erasures that are not finished. The server retries them at its next
   * scheduled run and at its next start.
   */
  unfinished_erasures: number;
};

/** The scope of an archive run. Default: all messages that are old enough. */
export type ArchiveRunRequest = {
  /** Archive only this conversation, even if a restore keeps it out of the archive. */
  conversation_id?: string | null;
  /** Whether to archive messages that do not fill a segment yet. Default: false. */
  partial?: boolean | null;
};

/** The result of a backup. */
export type BackupReportBody = {
  /** The number of accounts. */
  accounts: number;
  /**
   * The part of `messages` whose content is in the archive. The backup does not copy that
   * content.
   */
  archived_messages: number;
  /** The size of the backup, in bytes. */
  bytes: number;
  /** The number of conversations. */
  conversations: number;
  /** The number of rows that were already damaged in the store. `bluetick check` lists them. */
  damaged_rows: number;
  /** The number of messages. */
  messages: number;
  /** The number of parts, including the manifest. */
  objects: number;
  /** The location of the backup. */
  place: string;
  /** The duration of the job, in milliseconds. */
  took_ms: number;
  /** Whether the backup includes the keys that the server generated. */
  with_keys: boolean;
};

/** A request for a backup. */
export type BackupRequest = {
  /**
   * Whether to include the keys that the server generated. Default: true for a directory, false
   * for a bucket.
   */
  keys?: boolean | null;
  /**
   * The destination: the absolute path of a directory on the server, or `s3://bucket/prefix`. 1
   * to 1,024 bytes. It must be empty.
   */
  to: string;
};

/** A read state: the highest delivered and the highest read seq. Clients draw ticks from it. */
export type BoundariesBody = {
  /** Every message up to this seq is delivered; 0 if none is. */
  last_delivered_seq: number;
  /** Every message up to this seq is read; 0 if none is. Never above `last_delivered_seq`. */
  last_read_seq: number;
};

/** An amount of archived data. */
export type ColdBody = {
  /** The compressed size in the object store, in bytes. */
  bytes: number;
  /** The number of messages in the segments. */
  messages: number;
  /** The size before compression, in bytes. */
  raw_bytes: number;
  /** The number of segments. */
  segments: number;
};

/** A conversation as one of its members sees it. */
export type ConversationBody = {
  /** The id of the conversation. */
  conversation_id: string;
  /** When the conversation was created, in milliseconds since the Unix epoch. */
  created_at: number;
  /** The user who created the conversation. */
  created_by: string;
  /** The newest seq of the conversation; 0 if there is none. */
  head_seq: number;
  /** Whether it is a direct conversation or a group. */
  kind: KindBody;
  /**
   * When the newest message was received, or when the conversation was created, in milliseconds
   * since the Unix epoch.
   */
  last_at: number;
  /** The number of members. */
  member_count: number;
  /** All members. */
  members: MemberBody[];
  /** The other user of a direct conversation; null in groups. */
  peer: string | null;
  /** The title of a group; null in direct conversations. */
  title: string | null;
};

/** A conversation with its members and the settings and read state of the caller. */
export type ConversationDetailBody = ConversationBody & OwnPartBody;

/** The result of an erasure. */
export type EraseReportBody = {
  /** The number of conversations with erased messages. */
  conversations: number;
  /** The number of messages erased. */
  messages: number;
  /** The number of segments that were deleted. */
  segments_deleted: number;
  /** The number of segments that were rewritten without the erased content. */
  segments_rewritten: number;
  /** The duration of the job, in milliseconds. */
  took_ms: number;
};

/**
 * The scope of an erasure: all messages of a conversation, all messages of a user, or with both
 * fields the messages of that user in that conversation.
 */
export type ErasureRequest = {
  /** Erase messages of this conversation only. Required unless `user_id` is set. */
  conversation_id?: string | null;
  /**
   * Erase only up to this seq, which needs `conversation_id`. Default: the head at the time of
   * the call.
   */
  through_seq?: number | null;
  /** Erase messages from this sender only. Required unless `conversation_id` is set. */
  user_id?: string | null;
};

/** The body of every error response. */
export type ErrorBody = {
  /** The error. */
  error: ErrorDetail;
};

/** An error code and its description. */
export type ErrorDetail = {
  /** The error code, for programs. One of `x-error-codes`, which also lists what to do about it. */
  code: string;
  /** A description of the error, for people. Its text may change. */
  message: string;
};

/** The process is alive. */
export type HealthBody = {
  /** Always `ok`. */
  status: string;
};

/** An inbox entry: a conversation as one of its members sees it. */
export type InboxEntryBody = {
  /** Whether the caller archived the conversation. */
  archived: boolean;
  /** The id of the conversation. */
  conversation_id: string;
  /** The first seq that the caller can see. */
  first_seq: number;
  /** Whether it is a direct conversation or a group. */
  kind: KindBody;
  /**
   * When the newest message was received, or when the conversation was created, in milliseconds
   * since the Unix epoch. Pinned, other and archived conversations are each sorted by it, latest
   * first. It does not move back if the server's clock does.
   */
  last_at: number;
  last_message: LastMessageBody | null;
  /** The newest seq of the conversation, voids included; 0 if there is none. */
  last_seq: number;
  /** The number of members. */
  member_count: number;
  /** Whether the caller muted the conversation. */
  muted: boolean;
  /** The read state of the caller. */
  my_status: BoundariesBody;
  /** The other user of a direct conversation; null in groups. */
  peer: string | null;
  peer_presence: PresenceBody | null;
  /**
   * The read state of the peer; in a group, the lowest of all other members. The ticks of the
   * caller's own messages follow from it.
   */
  peer_status: BoundariesBody;
  /** Whether the caller pinned the conversation. */
  pinned: boolean;
  /**
   * The first bytes of the newest message (at most 120), cut at a character boundary. Empty if
   * it is a notice, or if there is no message.
   */
  preview: string;
  /** Whether other members see what the caller has read. */
  read_receipts: boolean;
  /** The title of a group; null in direct conversations. */
  title: string | null;
  /**
   * The number of messages from others above `my_status.last_read_seq`. Notices and voids do not
   * count.
   */
  unread: number;
};

/**
 * One page of the inbox.
 * 
 * Conversations can move while the caller pages. One that gets a message moves to the front and is
 * on no later page; a connected client gets the message as a push. One that the caller pins,
 * unpins, archives or unarchives may be on two pages or on none. All others are on exactly one
 * page.
 */
export type InboxPageBody = {
  /** Pinned conversations first, archived ones last. Within each group, latest activity first. */
  conversations: InboxEntryBody[];
  /** The `cursor` of the next page; null on the last page. */
  next_cursor: string | null;
};

/** A started job. */
export type JobBegunBody = {
  /** The id of the job, for `GET /v1/archive/jobs/{job_id}`. */
  job_id: string;
};

/** A running or ended job. */
export type JobBody = {
  /** How much of the current stage is done, in the unit of the stage. */
  done: number;
  /**
   * Why the job failed; null if it did not. Completed work is kept, and the same job can be
   * started again.
   */
  error: string | null;
  /** When the job ended, in milliseconds since the Unix epoch; null while it runs. */
  finished_at: number | null;
  /** The id of the job. */
  job_id: string;
  /** The kind of the job. */
  kind: JobKind;
  report: ReportBody | null;
  stage: StageBody | null;
  /** When the job started, in milliseconds since the Unix epoch. */
  started_at: number;
  /** The size of the current stage as far as it is known, in the unit of the stage. */
  total: number;
};

/** The kind of a job. */
export type JobKind = "run" | "verify" | "restore" | "erase" | "backup";

/** The kind of a conversation. */
export type KindBody = "direct" | "group";

/** The newest message of a conversation, with shortened content. */
export type LastMessageBody = {
  /**
   * At most the first 120 bytes of the content, cut at a character boundary. Notices (`system`)
   * are complete.
   */
  content: string;
  /** The type of the content, as in a message. */
  content_type: string;
  /** The id that the sender chose. */
  message_id: string;
  /** The server's clock, in milliseconds since the Unix epoch. */
  received_at: number;
  /** The sender. */
  sender_id: string;
  /** The seq of the message. */
  seq: number;
  /** The sender's clock, in milliseconds since the Unix epoch. */
  timestamp: number;
};

/** A user_id and its password. */
export type LoginRequest = {
  /** The password of the user. */
  password: string;
  /**
   * The user who logs in: 1 to 128 bytes of UTF-8, without spaces, control characters or format
   * characters.
   */
  user_id: string;
};

/** The scope of a log-out. */
export type LogoutRequest = {
  /**
   * True revokes all tokens of the user. False, the default, revokes only the token of this
   * call.
   */
  everywhere?: boolean;
};

/** A cumulative receipt. */
export type MarkRequest = {
  /**
   * Every message up to this seq is delivered or read. A value above the head counts as the
   * head. A value that is not above the current one changes nothing.
   */
  seq: number;
};

/** A member of a conversation. */
export type MemberBody = {
  /** The first seq that the member can see. */
  joined_seq: number;
  /** The role of the member. Admins can remove other members. */
  role: RoleBody;
  /** The member. */
  user_id: string;
};

/** The read state of a member. */
export type MemberStatusBody = {
  /**
   * The first seq that the member can see. Earlier messages do not need its receipt. To compute
   * the tick of a group message, use the maximum of each value above and `joined_seq - 1`.
   */
  joined_seq: number;
  /** Every message up to this seq is delivered; 0 if none is. */
  last_delivered_seq: number;
  /** Every message up to this seq is read; 0 if none is. Never above `last_delivered_seq`. */
  last_read_seq: number;
  /** The member. */
  user_id: string;
};

/** A message of a conversation. */
export type MessageBody = {
  /**
   * The content of the message. For a `system` notice, JSON that describes the event. Empty for
   * `erased`, `lost` and `void`.
   */
  content: string;
  /**
   * `text`, another type that the sender chose, or one of these types of the server:
   * 
   * - `system`: a notice, such as a membership change.
   * - `erased`: the content was permanently deleted.
   * - `lost`: the content is in a part of the archive that cannot be read.
   * - `void`: a seq that was allocated and never used. Clients count it and acknowledge it with
   *   the messages around it, but never show it.
   */
  content_type: string;
  /** The conversation of the message. */
  conversation_id: string;
  /** The id that the sender chose. */
  message_id: string;
  /** The server's clock, in milliseconds since the Unix epoch. */
  received_at: number;
  /** The other user of a direct conversation; null in groups. */
  receiver_id: string | null;
  /** The sender; `void` for a void. */
  sender_id: string;
  /**
   * The position in the conversation: 1, 2, 3 and so on, without gaps. It is the only order of
   * messages.
   */
  seq: number;
  /**
   * The sender's clock, in milliseconds since the Unix epoch. For display only; it does not
   * affect the order.
   */
  timestamp: number;
};

/** A request for a token. The user is one of the operator's own product and needs no account here. */
export type MintRequest = {
  /**
   * The lifetime of the token, in seconds. Default: the server's usual lifetime. A value above
   * the operator's maximum is refused; the error message contains the maximum.
   */
  ttl_s?: number | null;
  /**
   * The user of the token: 1 to 128 bytes of UTF-8, without spaces, control characters or format
   * characters.
   */
  user_id: string;
};

/** A request to set a password. */
export type NewPasswordRequest = {
  /**
   * The new password. Its minimum length is `password_min_length` of `GET /v1/server` (8 bytes
   * by default), its maximum 1,024 bytes of UTF-8. A character beyond ASCII takes two to four
   * bytes. Very common passwords and the user_id itself are refused.
   */
  password: string;
};

/** A request for a direct conversation or a new group. */
export type OpenConversationRequest = {
  kind: "direct";
  /**
   * The other user: 1 to 128 bytes of UTF-8, without spaces, control characters or format
   * characters.
   */
  peer: string;
} | ({
  kind: "group";
  /**
   * The other members. Each is a user_id of 1 to 128 bytes, without spaces, control
   * characters or format characters. Default: none.
   */
  members?: string[] | null;
  /** The title of the group: 1 to 256 bytes of UTF-8. Bidi control characters are removed. */
  title: string;
});

/** The part of a conversation that is specific to the caller, as in the inbox. */
export type OwnPartBody = {
  /** Whether the caller archived the conversation. */
  archived: boolean;
  /** Whether the caller muted the conversation. */
  muted: boolean;
  /** The read state of the caller. */
  my_status: BoundariesBody;
  /**
   * The read state of the peer; in a group, the lowest of all other members. The ticks of the
   * caller's own messages follow from it.
   */
  peer_status: BoundariesBody;
  /** Whether the caller pinned the conversation. */
  pinned: boolean;
  /** Whether other members see what the caller has read. */
  read_receipts: boolean;
  /**
   * The number of messages from others above `my_status.last_read_seq`. Notices and voids do not
   * count.
   */
  unread: number;
};

/** The read state of the caller after a receipt. */
export type OwnStatusBody = {
  /** The conversation. */
  conversation_id: string;
  /** Every message up to this seq is delivered; 0 if none is. */
  last_delivered_seq: number;
  /** Every message up to this seq is read; 0 if none is. Never above `last_delivered_seq`. */
  last_read_seq: number;
  /** The caller. */
  user_id: string;
};

/**
 * One page of history: messages with consecutive seqs, and cursors to the adjacent pages.
 * 
 * A page may have fewer than `limit` messages if they are large. Continue until the cursor is
 * null.
 */
export type PageBody = {
  /** The newest seq of the conversation; 0 if there is none. */
  head_seq: number;
  /** Newest first; with `after_seq`, oldest first. */
  messages: MessageBody[];
  /** The `after_seq` of the next newer page; null if there is none. */
  next_after_seq: number | null;
  /** The `before_seq` of the next older page; null if there is none. */
  next_before_seq: number | null;
};

/** The users that were found. */
export type PeopleBody = {
  /**
   * With `user_id`: the users in the order of the request, without unknown ids. With `search`:
   * sorted by the matching name.
   */
  people: PersonBody[];
};

/** A user, as all other users see it. */
export type PersonBody = {
  /** The name that other users see; null if none is set. */
  display_name: string | null;
  /** The id of the user. */
  user_id: string;
};

/**
 * What a device has of a conversation: every message up to `seq`, with the epoch from the
 * `welcome` frame. The seq alone is accepted too.
 */
export type Position = ({
  epoch?: number | null;
  seq: number;
}) | number;

/** A change of the caller's settings for one conversation. Omitted fields keep their value. */
export type PreferenceRequest = {
  /** Whether the conversation is archived. Archived conversations are last in the inbox. */
  archived?: boolean | null;
  /** Whether the conversation is muted. */
  muted?: boolean | null;
  /** Whether the conversation is pinned. Pinned conversations are first in the inbox. */
  pinned?: boolean | null;
  /**
   * False hides from other members what the caller reads from now on. After it is true again,
   * the next `read` shows everything up to its seq.
   */
  read_receipts?: boolean | null;
};

/**
 * Whether a user is online, and when the user was last online. A user who hides its presence
 * always appears offline and never seen.
 */
export type PresenceBody = {
  /**
   * When the last connection of the user ended, in milliseconds since the Unix epoch. Null while
   * the user is online, if it is unknown, and if the user hides its presence.
   */
  last_seen_at: number | null;
  /** Whether the user has an open connection and shows its presence. */
  online: boolean;
  /** The user. */
  user_id: string;
};

/** The presence of the other members of a conversation. */
export type PresencesBody = {
  /**
   * All other members. In conversations of more than 100 members: at most 100 members who are
   * online and show it.
   */
  members: PresenceBody[];
};

/** The profile of the caller. */
export type ProfileBody = {
  /** The name that other users see; null if none is set. */
  display_name: string | null;
  /** Whether other users see whether and when the user is online. */
  show_presence: boolean;
  /** The user of the token. */
  user_id: string;
};

/** A change of your profile. Omitted fields keep their value. */
export type ProfileRequest = {
  /** The name that other users see: 1 to 128 bytes of UTF-8. Bidi control characters are removed. */
  display_name?: string | null;
  /** False hides from all other users whether and when the user is online. */
  show_presence?: boolean | null;
};

/** Whether the server accepts traffic. */
export type ReadyBody = {
  /** Why the server is not ready; null when it is. */
  reason: string | null;
  /** `ready` or `not_ready`. */
  status: string;
};

/** The receipt counts of one message. They exclude its sender and the members who joined after it. */
export type ReceiptsBody = {
  /** The number of recipients to whom the message is delivered. */
  delivered_count: number;
  /** The number of recipients who have read the message. */
  read_count: number;
  /** The number of members who should receive the message. */
  recipient_count: number;
  /** The seq of the message. */
  seq: number;
};

/** The result of a job. Its shape depends on the kind of the job. */
export type ReportBody = BackupReportBody | RunReportBody | VerifyReportBody | EraseReportBody | RestoreReportBody;

/** The result of a restore. */
export type RestoreReportBody = {
  /** The number of messages restored. */
  messages: number;
  /** The number of segments restored. */
  segments: number;
  /** The duration of the job, in milliseconds. */
  took_ms: number;
};

/** The scope of a restore: either `conversation_id` or `all`, not both. */
export type RestoreRequest = {
  /** True restores all archived conversations, which empties the archive. */
  all?: boolean | null;
  /** Restore only this conversation. */
  conversation_id?: string | null;
};

/** The role of a member. */
export type RoleBody = "admin" | "member";

/** The result of an archive run. */
export type RunReportBody = {
  /** The number of conversations from which messages were moved. */
  conversations: number;
  /** The number of messages erased: past their retention, or left from an interrupted erasure. */
  erased_messages: number;
  /** The size of the table file after the run, in bytes. */
  hot_file_bytes_after: number;
  /** The size of the table file before the run, in bytes. */
  hot_file_bytes_before: number;
  /** The amount of data moved to the archive. */
  moved: ColdBody;
  /** The number of unreferenced objects that were deleted. */
  orphans_swept: number;
  /** The duration of the job, in milliseconds. */
  took_ms: number;
};

/** A message to send. */
export type SendRequestBody = {
  /**
   * With `retry`: the highest seq that the client knew at the first attempt. The server searches
   * for the first copy above it, even after the dedupe window. Ignored without `retry`. A value
   * above 9007199254740991 counts as that number.
   */
  after_seq?: number | null;
  /** The content of the message. The maximum size is `content_bytes` of `GET /v1/server`. */
  content: string;
  /**
   * The type of the content, chosen by the client: 1 to 64 visible ASCII characters. Default:
   * `text`. The server reserves `system`, `erased`, `lost` and `void`.
   */
  content_type?: string | null;
  /**
   * Created by the client before the first attempt; unique per conversation and sender. 1 to 128
   * visible ASCII characters. A UUIDv7 is a good choice. The prefix `system:` is reserved.
   */
  message_id: string;
  /** True if this is a resend of an earlier attempt. Default: false. */
  retry?: boolean | null;
  /**
   * The sender's clock, in milliseconds since the Unix epoch. Default: the server's clock. For
   * display only; it does not affect the order.
   */
  timestamp?: number | null;
};

/** A stored message and its seq. */
export type SentBody = {
  /** The conversation of the message. */
  conversation_id: string;
  /**
   * True if an earlier attempt already stored the message. `seq` and `received_at` are those of
   * that attempt.
   */
  duplicate: boolean;
  /** The id from the request. */
  message_id: string;
  /** When the server received the first copy, in milliseconds since the Unix epoch. */
  received_at: number;
  /** The seq of the message in the conversation. */
  seq: number;
};

/** The features and limits of a server. */
export type ServerBody = {
  /** The maximum size of the content of one message, in bytes; 0 means no limit. */
  content_bytes: number;
  /**
   * Whether users can log in with a password (`POST /v1/login`). If false, tokens come from the
   * operator's own product.
   */
  login: boolean;
  /** The minimum length of a new password, in bytes. */
  password_min_length: number;
  /** Whether users can create an account (`POST /v1/signup`). */
  signup: boolean;
  /** The version of the server. */
  version: string;
};

/** A request to create an account. */
export type SignupRequest = {
  /** The name that other users see: 1 to 128 bytes of UTF-8. Bidi control characters are removed. */
  display_name?: string | null;
  /**
   * The new password. Its minimum length is `password_min_length` of `GET /v1/server` (8 bytes
   * by default), its maximum 1,024 bytes of UTF-8. A character beyond ASCII takes two to four
   * bytes. Very common passwords and the user_id itself are refused.
   */
  password: string;
  /**
   * The id of the new user: 1 to 128 bytes of UTF-8 in normal form (NFKC), without spaces,
   * control characters or format characters. Ids that look like an existing one are refused.
   */
  user_id: string;
};

/**
 * The stage of a job, which sets the unit of `done` and `total`:
 * 
 * - `moving`, `erasing`: conversations.
 * - `sweeping`: objects.
 * - `compacting`, `copying`: bytes of tables.
 * - `verifying`, `restoring`: segments.
 * - `reading_back`: parts of a backup.
 * - `checking`: rows.
 */
export type StageBody = "moving" | "sweeping" | "compacting" | "verifying" | "restoring" | "erasing" | "copying" | "reading_back" | "checking";

/** The read states of all members, or with the parameter `seq` the receipt counts of that message. */
export type StatusBody = StatusesBody | ReceiptsBody;

/** The read states of all members. */
export type StatusesBody = {
  /** The newest seq of the conversation; 0 if it has no messages. */
  head_seq: number;
  /** All members, sorted by user_id. A member without receipts has 0 in both values. */
  members: MemberStatusBody[];
};

/** An access token. */
export type TokenBody = {
  /** When the token expires, in milliseconds since the Unix epoch. */
  expires_at: number;
  /** The token, for the `Authorization: Bearer` header and the `hello` frame. */
  token: string;
  /** The user of the token. */
  user_id: string;
};

/** An account, as the operator sees it. */
export type UserBody = {
  /** When the account was created, in milliseconds since the Unix epoch. */
  created_at: number;
  /** The name that other users see; null if none is set. */
  display_name: string | null;
  /** Whether the account has a password. A user without one cannot log in here. */
  has_password: boolean;
  /** The id of the user. */
  user_id: string;
};

/** The result of a verification. */
export type VerifyReportBody = {
  /** The amount of data checked. */
  checked: ColdBody;
  /** The number of problems found. */
  problem_count: number;
  /** One sentence per problem, at most 1,000. */
  problems: string[];
  /** The duration of the job, in milliseconds. */
  took_ms: number;
};

/**
 * Acknowledges a `send`: the message is durable.
 * 
 * The connection that sent the message gets this frame instead of `message`, at the same position
 * in the order.
 */
export type AckFrame = {
  type: "ack";
} & SentBody;

/**
 * Part of the catch-up: the device misses more messages of this conversation than the server sends
 * unasked.
 * 
 * Get the rest with `GET /v1/conversations/{conversation_id}/messages?after_seq=`. The next pushed
 * message has a seq above `head_seq`. Acks of own sends, and the notice that the user left, may
 * still have lower seqs.
 */
export type BacklogFrame = {
  /** The conversation with more missed messages. */
  conversation_id: string;
  /** The newest seq of the conversation. Get pages up to it. */
  head_seq: number;
  /** The `after_seq` of the first page to get. */
  next_after_seq: number;
  type: "backlog";
};

/**
 * Ends the catch-up. All later frames are live.
 * 
 * The catch-up contains messages only. Read states, settings and memberships that changed
 * meanwhile are in the inbox (`GET /v1/conversations`).
 */
export type CaughtUpFrame = {
  type: "caught_up";
};

/**
 * The server is shutting down and closes the connection with code 1012 next.
 * 
 * Reconnect after `after_ms`. The server spreads the reconnects of its clients with different
 * delays.
 */
export type ComeBackFrame = {
  /** The delay before the client reconnects, in milliseconds. */
  after_ms: number;
  type: "come_back";
};

/**
 * The current inbox entry of a conversation that is new to the user, or whose settings the user
 * changed.
 */
export type ConversationFrame = {
  type: "conversation";
} & InboxEntryBody;

/**
 * Acknowledges every message of a conversation up to a seq: as received by the device
 * (`delivered`) or as read by the user (`read`).
 * 
 * Receipts are cumulative and only move forward. `read` implies `delivered`. A late or repeated
 * frame changes nothing.
 */
export type DeliveredFrame = {
  /** The conversation of the acknowledged messages. */
  conversation_id: string;
  /** The highest acknowledged seq. A value above the head counts as the head. */
  seq: number;
  type: "delivered";
};

/** The server refused a frame. The connection stays open. */
export type ErrorFrame = {
  /** The error code, for programs. One of `x-error-codes`. */
  code: string;
  /** The conversation of the refused `delivered`, `read` or `typing`. Absent otherwise. */
  conversation_id?: string | null;
  /** A description of the error, for people. Its text may change. */
  message: string;
  /** The `message_id` of the refused `send`, if it could be read. Absent otherwise. */
  message_id?: string | null;
  type: "error";
};

/**
 * The user is not a member of this conversation, or no longer is.
 * 
 * The server sends it for a position in `hello`, and when the user leaves during the catch-up. Its
 * missed messages are not available.
 */
export type GoneFrame = {
  /** The conversation that the user is not in. */
  conversation_id: string;
  type: "gone";
};

/**
 * Authenticates the connection and reports what the device already has.
 * 
 * The client sends it first, within `limits.hello_seconds` (10 seconds by default). The server
 * answers with `welcome`, the missed messages, and `caught_up`.
 */
export type HelloFrame = {
  /** An identifier for the device. Accepted and ignored in this version. */
  device_id?: string | null;
  /**
   * What the device has, by `conversation_id`: every message up to the given seq.
   * 
   * The server sends the messages above each position, whatever other devices of the user have.
   * A position also counts as `delivered` up to that seq.
   * 
   * For conversations without a position, the server sends the messages that no device of the
   * user has acknowledged. If there are none, it sends the newest page of conversations with
   * activity after the newest position. Without any positions, it sends unacknowledged messages
   * only.
   * 
   * The server ignores a position from another epoch or above the head. It answers a position in
   * a conversation that the user is not in with `gone`.
   */
  positions?: Record<string, Position> | null;
  /** The access token, from log-in, sign-up or `POST /v1/tokens`. */
  token: string;
  type: "hello";
};

/**
 * A message that another user sent, or that the same user sent from another connection.
 * 
 * The client confirms it with `delivered`, and ignores a seq that it has already.
 */
export type MessageFrame = {
  type: "message";
} & MessageBody;

/** Requests a `pong`, to check that the connection is alive. */
export type PingFrame = {
  type: "ping";
};

/** The answer to `ping`. */
export type PongFrame = {
  type: "pong";
};

/**
 * A user has come online or gone offline.
 * 
 * The server sends it for the peers of the most recent direct conversations. For other users, call
 * `GET /v1/conversations/{conversation_id}/presence`.
 */
export type PresenceFrame = {
  type: "presence";
} & PresenceBody;

/**
 * Acknowledges every message of a conversation up to a seq: as received by the device
 * (`delivered`) or as read by the user (`read`).
 * 
 * Receipts are cumulative and only move forward. `read` implies `delivered`. A late or repeated
 * frame changes nothing.
 */
export type ReadFrame = {
  /** The conversation of the acknowledged messages. */
  conversation_id: string;
  /** The highest acknowledged seq. A value above the head counts as the head. */
  seq: number;
  type: "read";
};

/**
 * The lowest read state of all other members of a group, for the ticks of the receiver's own
 * messages.
 * 
 * In groups of more than 16 members, the server sends it when this state advances, to the members
 * who also get `status` there. It replaces `status` when more than 8 members advanced at once. In
 * groups of any size, the server sends it when a member leaves and the state of the remaining
 * members is higher.
 */
export type ReceiptsFrame = {
  /** The group. */
  conversation_id: string;
  /** Every message up to this seq is delivered to all other members. */
  last_delivered_seq: number;
  /** All other members have read every message up to this seq. */
  last_read_seq: number;
  type: "receipts";
};

/**
 * Sends a message. The fields have the same meaning as in `POST
 * /v1/conversations/{conversation_id}/messages`.
 * 
 * The server answers with `ack`, or with `error` and the `message_id`. A resend with the same
 * `message_id` is safe: it returns the seq of the first attempt.
 */
export type SendFrame = {
  /**
   * With `retry`: the highest seq that the client knew at the first attempt. The server searches
   * for the first copy above it, even after the dedupe window. Ignored without `retry`.
   */
  after_seq?: number | null;
  /** The content of the message. The maximum size is `content_bytes` of `GET /v1/server`. */
  content: string;
  /**
   * The type of the content, chosen by the client. Default: `text`. The server reserves
   * `system`, `erased`, `lost` and `void`.
   */
  content_type?: string | null;
  /** The conversation to send to. */
  conversation_id: string;
  /**
   * Created by the client before the first attempt; unique per conversation and sender. 1 to 128
   * visible ASCII characters. A UUIDv7 is a good choice. The prefix `system:` is reserved.
   */
  message_id: string;
  /** True if this is a resend of an earlier attempt. Default: false. */
  retry?: boolean | null;
  /**
   * The sender's clock, in milliseconds since the Unix epoch. Default: the server's clock. For
   * display only; it does not affect the order.
   */
  timestamp?: number | null;
  type: "send";
};

/**
 * The read state of a member has advanced.
 * 
 * The server sends it to the member's other devices and to the other members. In conversations of
 * up to 16 members, all members get it immediately.
 * 
 * In larger ones, the server collects receipts for 250 ms. If at most 8 members advanced, it sends
 * a `status` for each of them, otherwise one `receipts` frame. Only members who sent one of the
 * last 100 messages, or who wait for the tick of an earlier one, get these frames.
 */
export type StatusFrame = {
  /** The conversation of the read state. */
  conversation_id: string;
  /** Every message up to this seq is delivered to the member. */
  last_delivered_seq: number;
  /** The member has read every message up to this seq. Never above `last_delivered_seq`. */
  last_read_seq: number;
  type: "status";
  /**
   * The member's new unread count. Sent to the member's own devices only, and absent if the
   * server does not have it at hand; the inbox has it then.
   */
  unread?: number | null;
  /** The member whose read state advanced. */
  user_id: string;
};

/**
 * Tells the other members that the user is typing. Repeat it every few seconds while the user
 * types.
 */
export type TypingByClientFrame = {
  /** The conversation in which the user types. */
  conversation_id: string;
  type: "typing";
};

/** A member is typing. Show it for a few seconds, unless another frame extends it. */
export type TypingByServerFrame = {
  /** The conversation in which the member types. */
  conversation_id: string;
  type: "typing";
  /** The member who types. */
  user_id: string;
};

/** Confirms the `hello`. It is the first frame from the server. */
export type WelcomeFrame = {
  /**
   * The epoch of the store. It changes when the store is restored to an earlier state. A client
   * that knew another epoch drops its cache.
   */
  epoch: number;
  /** The server's clock, in milliseconds since the Unix epoch. */
  server_time: number;
  /** Identifies this connection in the server's logs. */
  session_id: string;
  type: "welcome";
  /** The user that the token belongs to. */
  user_id: string;
};

/** A frame from a client. */
export type ClientFrame =
  | HelloFrame
  | SendFrame
  | DeliveredFrame
  | ReadFrame
  | TypingByClientFrame
  | PingFrame;

/** A frame from the server. */
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

/** The error codes of the server. */
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

/** Error codes after which the same request may succeed later. */
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
