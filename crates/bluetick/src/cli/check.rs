//! `bluetick check`.

use clap::Args;

use super::{OutputArgs, Places};

#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP)]
pub struct CheckArgs {
    /// Read the segments in the archive as well
    #[arg(long)]
    pub archive: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick check`, below the flags.
const CHECK_HELP: &str = "\
Reads every batch of the log and every page and row of the tables, and checks their consistency:
contiguous seqs, ids, ticks, members, inboxes, pending deliveries, names, references to the archive.
No server may use the data directory meanwhile. For a running server, restore a backup elsewhere:
the restore checks it. Changes nothing.

Exit code 0: sound. 1: damaged; each line names the file and byte, or the table and key, and the
conversation and seqs. 2: the check could not run. Works on a read-only mount, except with
--archive.

For the embedded store. `bluetick tables check` and `bluetick archive verify` are for a fleet.

Examples:
  bluetick check
  bluetick check --data-dir /var/lib/bluetick --archive
  bluetick check --json | jq '.findings[]'";
