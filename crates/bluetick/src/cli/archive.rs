//! `bluetick archive` and `bluetick erase`.

use bluetick_core::{ConversationId, Seq, UserId};
use clap::{Args, Subcommand};

use super::Places;

#[derive(Debug, Subcommand)]
#[command(after_help = ARCHIVE_HELP)]
pub enum ArchiveCommand {
    /// Move old messages to the archive now
    #[command(after_help = ARCHIVE_RUN_HELP)]
    Run(ArchiveRunArgs),
    /// Show where messages are stored, and the running job
    #[command(after_help = ARCHIVE_STATUS_HELP)]
    Status(ArchiveStatusArgs),
    /// Read every segment and compare it with the store's records
    #[command(after_help = ARCHIVE_VERIFY_HELP)]
    Verify(ArchiveVerifyArgs),
    /// Move a conversation, or all of them, from the archive back to the store
    #[command(after_help = ARCHIVE_RESTORE_HELP)]
    Restore(ArchiveRestoreArgs),
}

/// Help text of `bluetick archive`, below the flags.
const ARCHIVE_HELP: &str = "\
The archive keeps old messages (archive.age_seconds, 90 days) compressed in a directory or a bucket.
Clients see no difference. Archiving is disabled until you set archive.engine; then it runs on
schedule.

On one server the commands work on the data directory. If a server uses it, the commands send their
requests to that server, with the admin key from the data directory or the settings.

On a fleet the commands work on the tables, from any machine, while nodes serve. Pass `--config`
with the nodes' settings file (store.engine = \"dynamodb\", store.dynamodb, store.redis, [archive])
and credentials for tables and bucket. The commands contact no node and need no data directory. An
archive in a directory must be mounted under the same path. Without a data directory, the audit
trail goes to standard error.

You can stop every job at any time and repeat it.

Examples:
  BLUETICK_ARCHIVE__ENGINE=directory bluetick serve
  bluetick archive status
  bluetick archive run
  bluetick archive status --config /etc/bluetick-fleet.toml";

#[derive(Args, Debug)]
pub struct ArchiveRunArgs {
    /// Archive only this conversation, even if it was restored before
    #[arg(long, value_name = "ID")]
    pub conversation: Option<ConversationId>,
    /// Include old messages that are too few for a segment
    #[arg(long)]
    pub partial: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick archive run`, below the flags.
const ARCHIVE_RUN_HELP: &str = "\
Finishes interrupted erasures, deletes content older than archive.retention_seconds, moves old
messages, deletes unreferenced objects, and returns the space to the disk.

Ctrl-C stops the run; the next run continues from there. If a server runs the job, it continues
there. On a fleet it runs in this process, on the tables. Only one run at a time, here or on a node.

Examples:
  bluetick archive run
  bluetick archive run --partial
  bluetick archive run --config /etc/bluetick-fleet.toml
  bluetick archive run --conversation d0123456789abcdefghjkmnpq";

#[derive(Args, Debug)]
pub struct ArchiveStatusArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick archive status`, below the flags.
const ARCHIVE_STATUS_HELP: &str = "\
Examples:
  bluetick archive status
  bluetick archive status --json | jq .cold";

#[derive(Args, Debug)]
pub struct ArchiveVerifyArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick archive verify`, below the flags.
const ARCHIVE_VERIFY_HELP: &str = "\
Reads the whole archive, which takes time and, in a bucket, costs money. The exit code is 1 if there
is a problem; the output lists each one. Changes nothing.

Example:
  bluetick archive verify";

#[derive(Args, Debug)]
pub struct ArchiveRestoreArgs {
    /// The conversation_id
    #[arg(value_name = "CONVERSATION", required_unless_present = "all", conflicts_with = "all")]
    pub conversation: Option<ConversationId>,
    /// Restore the whole archive
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick archive restore`, below the flags.
const ARCHIVE_RESTORE_HELP: &str = "\
The conversation stays in the store until you run `bluetick archive run --conversation ID`.

To stop using the archive, stop the server (in a fleet, every node). Restore everything while
archive.engine still names the archive, then set it to \"off\".

Examples:
  bluetick archive restore d0123456789abcdefghjkmnpq
  bluetick archive restore --all";

#[derive(Args, Clone, Copy, Debug)]
pub struct OutputArgs {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
#[command(after_help = ERASE_HELP)]
pub enum EraseCommand {
    /// Delete the content of all messages of a conversation
    #[command(after_help = ERASE_CONVERSATION_HELP)]
    Conversation(EraseConversationArgs),
    /// Delete the messages of a user, in all conversations or in one
    #[command(after_help = ERASE_USER_HELP)]
    User(EraseUserArgs),
}

/// Help text of `bluetick erase`, below the flags.
const ERASE_HELP: &str = "\
Deletes the content of messages permanently, in the store and in the archive. The seq, the sender
and the time of each message stay; clients show \"This message was deleted\". Copies on devices may
remain.

The command asks you to repeat the id before it deletes. --yes skips that question and nothing else;
without a terminal, it is required.

Also works without an archive, and while a server runs. After exit code 0, no file of the data
directory holds the content. If it is interrupted, the next start of the server or `bluetick archive
run` finishes it.

On a fleet it works on the tables, from any machine, while nodes serve. Pass `--config` with the
nodes' settings file, with the same [archive], and credentials for tables and bucket. No data
directory is needed.

Examples:
  bluetick erase conversation d0123456789abcdefghjkmnpq
  bluetick erase user alice
  bluetick erase user alice --yes --config /etc/bluetick-fleet.toml";

#[derive(Args, Debug)]
pub struct EraseConversationArgs {
    /// The conversation_id
    #[arg(value_name = "ID")]
    pub conversation: ConversationId,
    /// Only messages up to this seq, inclusive
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..=Seq::MAX.get()))]
    pub through: Option<u64>,
    #[command(flatten)]
    pub consent: ConsentArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick erase conversation`, below the flags.
const ERASE_CONVERSATION_HELP: &str = "\
The command asks you to repeat the id before it deletes; --yes skips the question. Messages
that are written after the command has started stay.

Examples:
  bluetick erase conversation d0123456789abcdefghjkmnpq
  bluetick erase conversation d0123456789abcdefghjkmnpq --through 480 --yes";

#[derive(Args, Debug)]
pub struct EraseUserArgs {
    /// The user_id
    #[arg(value_name = "USER", value_parser = UserId::from_stored)]
    pub name: UserId,
    /// Only in this conversation
    #[arg(long, value_name = "ID")]
    pub conversation: Option<ConversationId>,
    #[command(flatten)]
    pub consent: ConsentArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick erase user`, below the flags.
const ERASE_USER_HELP: &str = "\
The command asks you to repeat the user_id before it deletes; --yes skips the question. The
account and the messages of other users stay.

Examples:
  bluetick erase user alice
  bluetick erase user alice --conversation d0123456789abcdefghjkmnpq --yes";

#[derive(Args, Clone, Copy, Debug)]
pub struct ConsentArgs {
    /// Skip the question; required without a terminal
    #[arg(long)]
    pub yes: bool,
}
