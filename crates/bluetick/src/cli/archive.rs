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
    /// Show what lies where, and what is being done
    #[command(after_help = ARCHIVE_STATUS_HELP)]
    Status(ArchiveStatusArgs),
    /// Read every segment and compare it with what is known of it
    #[command(after_help = ARCHIVE_VERIFY_HELP)]
    Verify(ArchiveVerifyArgs),
    /// Bring a conversation back from the archive, or all of them, to stay
    #[command(after_help = ARCHIVE_RESTORE_HELP)]
    Restore(ArchiveRestoreArgs),
}

const ARCHIVE_HELP: &str = "\
The archive keeps old messages (archive.age_seconds, 90 days) compressed in a directory or a bucket.
Whoever reads them sees no difference. It is off until archive.engine is set, and then runs by itself.

On one server it works on the data directory. While a server uses that, the server is asked instead,
with the admin key from the data directory or the settings.

On a fleet it works on the tables, from any machine, while nodes serve: pass `--config` with the nodes'
settings file (store.engine = \"dynamodb\", store.dynamodb, store.redis, [archive]) and credentials for
tables and bucket. No node is asked, and no data directory is needed. An archive in a directory must be mounted
here under the same path. The audit trail goes to standard error where there is no data directory.

Every job can be stopped at any moment and given again.

Examples:
  BLUETICK_ARCHIVE__ENGINE=directory bluetick serve
  bluetick archive status
  bluetick archive run
  bluetick archive status --config /etc/bluetick-fleet.toml";

#[derive(Args, Debug)]
pub struct ArchiveRunArgs {
    /// This conversation alone, also when it was brought back to stay
    #[arg(long, value_name = "ID")]
    pub conversation: Option<ConversationId>,
    /// Also old messages that are too few for a segment
    #[arg(long)]
    pub partial: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

const ARCHIVE_RUN_HELP: &str = "\
Finishes erasures that were interrupted, deletes what is past archive.retention_seconds, moves what is
old enough, sweeps up what nobody refers to, and gives the space back.

Ctrl-C stops it; the next run goes on from there. With a server it goes on in the server.
On a fleet it runs in this process, on the tables; one run at a time, here or on a node.

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

const ARCHIVE_VERIFY_HELP: &str = "\
Reads everything in the archive, which takes its time and, in a bucket, its price. Exit code 1 when
something is not as it should be; the list says what. Nothing is changed.

Example:
  bluetick archive verify";

#[derive(Args, Debug)]
pub struct ArchiveRestoreArgs {
    /// The conversation_id
    #[arg(value_name = "CONVERSATION", required_unless_present = "all", conflicts_with = "all")]
    pub conversation: Option<ConversationId>,
    /// Everything that is in the archive
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

const ARCHIVE_RESTORE_HELP: &str = "\
It stays in the hot store until `bluetick archive run --conversation ID` names it.

To leave the archive for good, stop the server (of a fleet, every node), bring everything back while
archive.engine still says where it is, then set it to \"off\".

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
    /// Delete what everybody wrote in a conversation
    #[command(after_help = ERASE_CONVERSATION_HELP)]
    Conversation(EraseConversationArgs),
    /// Delete what a user wrote, everywhere or in one conversation
    #[command(after_help = ERASE_USER_HELP)]
    User(EraseUserArgs),
}

const ERASE_HELP: &str = "\
Deletes the content of messages for good, in the hot store and in the archive. The places stay, with
who wrote when; clients show \"This message was deleted\". What devices have copied is theirs.

The command asks you to repeat the id before it deletes. --yes skips that question and nothing else;
without a terminal to ask on, it is needed.

Works without an archive too, and while a server runs. When it ends with exit code 0, no file of the
data directory holds the content. If it is interrupted, the next start of the server or
`bluetick archive run` finishes it.

On a fleet it works on the tables, from any machine, while nodes serve: pass `--config` with the nodes'
settings file, with the same [archive], and credentials for tables and bucket. No data directory is needed.

Examples:
  bluetick erase conversation d0123456789abcdefghjkmnpq
  bluetick erase user alice
  bluetick erase user alice --yes --config /etc/bluetick-fleet.toml";

#[derive(Args, Debug)]
pub struct EraseConversationArgs {
    /// The conversation_id
    #[arg(value_name = "ID")]
    pub conversation: ConversationId,
    /// Only up to this message, and it too
    #[arg(long, value_name = "SEQ", value_parser = clap::value_parser!(u64).range(1..=Seq::MAX.get()))]
    pub through: Option<u64>,
    #[command(flatten)]
    pub consent: ConsentArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

const ERASE_CONVERSATION_HELP: &str = "\
The command asks you to repeat the id before it deletes; --yes skips the question. What is
written after the command has begun stays.

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

const ERASE_USER_HELP: &str = "\
The command asks you to repeat the user_id before it deletes; --yes skips the question. The
account stays, and so does what others wrote.

Examples:
  bluetick erase user alice
  bluetick erase user alice --conversation d0123456789abcdefghjkmnpq --yes";

#[derive(Args, Clone, Copy, Debug)]
pub struct ConsentArgs {
    /// Skip the question; needed where there is no terminal to ask on
    #[arg(long)]
    pub yes: bool,
}
