//! `bluetick restored`.

use clap::Args;

use super::{OutputArgs, Places};

#[derive(Args, Debug)]
#[command(after_help = RESTORED_HELP)]
pub struct PutBackArgs {
    /// Skip the confirmation
    #[arg(long)]
    pub yes: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub places: Places,
}

/// Help text of `bluetick restored`, below the flags.
const RESTORED_HELP: &str = "\
Use it after you put an earlier copy of the data directory back yourself: files copied while no
server ran, a snapshot of the volume, an image of the machine. Use it before the first server starts
on the copy. `bluetick restore` does the same by itself, and a fleet has `bluetick tables restored`.

The server then allocates seqs again that devices have already seen with other messages. This
command gives the data directory a new epoch. A device that sees another epoch drops its cache and
reads everything again. No message changes. No server may use the data directory meanwhile. The
command asks before it changes the epoch; --yes skips the question.

Exit code 0: the epoch has changed. 1: it failed. 2: it was refused, for example because a server
runs.

Examples:
  bluetick restored
  bluetick restored --data-dir /var/lib/bluetick --yes";
