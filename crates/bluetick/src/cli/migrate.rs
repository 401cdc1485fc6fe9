//! `bluetick migrate`.

use std::path::PathBuf;

use clap::Args;

#[cfg(feature = "fleet")]
use crate::settings::Flags;

#[derive(Args, Clone, Debug)]
#[command(after_help = MIGRATE_HELP)]
pub struct MigrateArgs {
    /// The data directory to copy; no server may be using it
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The settings file of the fleet [default: $BLUETICK_CONFIG, or ./bluetick.toml if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The settings file that the data directory was served with, where its archive is another one than the fleet's
    #[arg(long, value_name = "FILE")]
    pub from_config: Option<PathBuf>,
    /// Do not read everything back and compare it
    #[arg(long)]
    pub no_verify: bool,
    /// Go through everything again, however far an earlier run has come
    #[arg(long)]
    pub from_start: bool,
    /// Copy into tables that somebody has used
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

const MIGRATE_HELP: &str = "\
Copies everything in a data directory of the store `embedded` into the tables of the settings: users
with their passwords, conversations, every message in its place, how far everybody has come, what
waits for whom, and the two keys, so that tokens stay good. Archived messages are read back from the
archive. The directory stays as it is, to go back to.

Before: stop its server, and `bluetick tables create`. No server may serve the tables until it is
done. Stop it at any moment; the same command goes on from there. What was copied is then read back
and compared; exit code 1 when anything differs, and a list says what. Given again after that, it
only compares.

Examples:
  bluetick migrate --from /var/lib/bluetick --config /etc/bluetick-fleet.toml
  bluetick migrate --from ./bluetick-data --no-verify";
