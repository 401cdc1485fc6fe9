//! `bluetick restore`.

use clap::Args;

use super::{OutputArgs, Places};

#[derive(Args, Debug)]
#[command(after_help = RESTORE_HELP)]
pub struct RestoreArgs {
    /// A directory, or s3://bucket/prefix
    #[arg(value_name = "FROM")]
    pub from: String,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick restore`, below the flags.
const RESTORE_HELP: &str = "\
The data directory must be new or empty. The command compares every part with its checksum, and then
checks the restored directory like `bluetick check`, before a server can start on it.

The restored directory has a new epoch, because seqs after the backup are allocated again. Clients
that see the new epoch drop their caches and read everything again. Do not let the restored server
and the original one use the same archive: each would treat the other's objects as its own.

Examples:
  bluetick restore /var/backups/bluetick/monday --data-dir /var/lib/bluetick
  bluetick restore s3://safe-place/chat/monday --data-dir ./again";
