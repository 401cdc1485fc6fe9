//! `bluetick backup`.

use clap::Args;

use super::{OutputArgs, Places};

#[derive(Args, Debug)]
#[command(after_help = BACKUP_HELP)]
pub struct BackupArgs {
    /// A directory, or s3://bucket/prefix; nothing may be there yet
    #[arg(value_name = "TO")]
    pub to: String,
    /// With token.key and admin.key, also into a bucket
    #[arg(long, conflicts_with = "without_keys")]
    pub with_keys: bool,
    /// Without token.key and admin.key, also into a directory
    #[arg(long)]
    pub without_keys: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

const BACKUP_HELP: &str = "\
Everything as it is at one moment: messages, users, ticks. People go on writing meanwhile. While a
server uses the data directory, the server is asked, and a directory is one of its machine. What was
written is read back, and MANIFEST.json comes last: a place without one holds no backup.

Not in it: the content of messages in the archive, which stays where it is; settings. The two keys
of the data directory are in a backup in a directory, and in a bucket only with --with-keys: whoever
has them can act as anybody.

A bucket is reached with archive.region, archive.endpoint and the keys the archive would use.
Exit code 1 when it failed, or when rows were damaged before they were copied.

Examples:
  bluetick backup /var/backups/bluetick/monday
  bluetick backup s3://safe-place/chat/monday";
