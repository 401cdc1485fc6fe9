//! Arguments and help of `bluetick hot`.

use std::path::PathBuf;

use clap::Args;

#[cfg(feature = "fleet")]
use crate::settings::Flags;

#[derive(Args, Clone, Debug, Default)]
#[command(after_help = HOT_HELP)]
pub struct HotArgs {
    /// The settings file [default: $BLUETICK_CONFIG, or ./bluetick.toml if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[cfg(feature = "fleet")]
impl HotArgs {
    pub fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }
}

/// Help text of `bluetick hot`, below the flags.
const HOT_HELP: &str = "\
For a fleet (store.engine = \"dynamodb\"). Reads the tables and contacts no node. The rate covers the
newest 500 messages; a dash means that the newest message is older than a minute. An epoch is a
range of seqs with its own number of partitions.

Examples:
  bluetick hot
  bluetick hot --config fleet.toml";
