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

const RESTORE_HELP: &str = "\
The data directory has to be new or empty. Every part is compared with its checksum, and what was made
of them is looked through as `bluetick check` does before a server can start on it.

Clients are told another epoch: they drop what they keep and read anew, since places after the
backup are given out again. Do not let the restored server and the one that was backed up use the
same archive: each would take the other's objects for its own.

Examples:
  bluetick restore /var/backups/bluetick/monday --data-dir /var/lib/bluetick
  bluetick restore s3://safe-place/chat/monday --data-dir ./again";
