//! Arguments and help of `bluetick migrate`.

use std::path::PathBuf;

use clap::Args;

#[cfg(feature = "fleet")]
use crate::settings::Flags;

#[derive(Args, Clone, Debug)]
#[command(after_help = MIGRATE_HELP)]
pub struct MigrateArgs {
    /// The data directory to copy; no server may use it
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The settings file of the fleet [default: $BLUETICK_CONFIG, or ./bluetick.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The settings file of the source server, if its archive differs from the fleet's
    #[arg(long, value_name = "FILE")]
    pub from_config: Option<PathBuf>,
    /// Skip the comparison of the copy with the source
    #[arg(long)]
    pub no_verify: bool,
    /// Start again from the beginning, also after an interrupted run
    #[arg(long)]
    pub from_start: bool,
    /// Copy into tables that are not empty
    #[arg(long)]
    pub into_existing: bool,
}

#[cfg(feature = "fleet")]
impl MigrateArgs {
    pub fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }

    /// The flags that load the settings of the source server.
    pub fn source_flags(&self) -> Flags {
        let config = self.from_config.clone().or_else(|| self.config.clone());
        Flags { config, data_dir: Some(self.from.clone()), listen: None }
    }
}

/// Help text of `bluetick migrate`, below the flags.
const MIGRATE_HELP: &str = "\
Copies a data directory of the embedded store into the tables of the settings: users with their
passwords, conversations, every message with its seq, the read states, pending deliveries, and the
two keys, so that tokens stay valid. Reads archived messages back from the archive. The directory
does not change, so you can go back to it.

Before: stop its server, and run `bluetick tables create`. No server may serve the tables until the
migration ends. You can interrupt it at any time; the same command continues. At the end, the
command reads the copy back and compares it. It lists every difference, and exits with 1 if there is
one. After a complete migration the command only compares.

Examples:
  bluetick migrate --from /var/lib/bluetick --config /etc/bluetick-fleet.toml
  bluetick migrate --from ./bluetick-data --no-verify";
