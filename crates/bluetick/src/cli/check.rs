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

const CHECK_HELP: &str = "\
Reads every batch of the log and every page and row of the tables, and compares what must agree: places
without gaps, ids, ticks, members, inboxes, what is pending, names, references to the archive. No
server may use the data directory meanwhile; a backup of a running one can be restored elsewhere, which
looks it through. Nothing is changed.

Exit code 0: sound. 1: there is damage, and each line says where: file and byte, or table and key,
conversation and seqs. 2: it could not be looked through. Works on a read-only mount, except --archive.

For the embedded store. `bluetick tables check` and `bluetick archive verify` are for a fleet.

Examples:
  bluetick check
  bluetick check --data-dir /var/lib/bluetick --archive
  bluetick check --json | jq '.findings[]'";
