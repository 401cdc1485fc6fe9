//! `bluetick backup`.

use clap::Args;

use super::{OutputArgs, Places};

#[derive(Args, Debug)]
#[command(after_help = BACKUP_HELP)]
pub struct BackupArgs {
    /// A directory, or s3://bucket/prefix; it must be new or empty
    #[arg(value_name = "TO")]
    pub to: String,
    /// Include token.key and admin.key, even in a bucket
    #[arg(long, conflicts_with = "without_keys")]
    pub with_keys: bool,
    /// Exclude token.key and admin.key, even in a directory
    #[arg(long)]
    pub without_keys: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick backup`, below the flags.
const BACKUP_HELP: &str = "\
Copies a snapshot of all messages, users and ticks. Users can send messages meanwhile. If a server
uses the data directory, that server makes the backup, and TO is a directory on its machine. The
command reads the copy back and writes MANIFEST.json last: a copy without MANIFEST.json is
incomplete.

A backup excludes the settings and the content of archived messages. A backup in a directory
includes the two keys of the data directory. A backup in a bucket includes them only with
--with-keys, because the keys allow acting as any user.

For a bucket, the command uses archive.region, archive.endpoint and the credentials of the archive.
The exit code is 1 if the backup failed, or if rows of the store were already damaged.

Examples:
  bluetick backup /var/backups/bluetick/monday
  bluetick backup s3://safe-place/chat/monday";
