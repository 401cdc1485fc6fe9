//! Arguments and help of `bluetick tables`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[cfg(feature = "fleet")]
use crate::settings::Flags;

#[derive(Debug, Subcommand)]
#[command(after_help = TABLES_HELP)]
pub enum TablesCommand {
    /// Create the missing tables, and protect all tables
    #[command(after_help = TABLES_CREATE_HELP)]
    Create(TablesArgs),
    /// Check the tables without changing them
    #[command(after_help = TABLES_CHECK_HELP)]
    Check(TablesArgs),
    /// Make clients drop their caches, after the tables were restored from a backup
    #[command(after_help = TABLES_RESTORED_HELP)]
    Restored(RestoredArgs),
}

#[derive(Args, Clone, Debug, Default)]
pub struct TablesArgs {
    /// The settings file [default: $BLUETICK_CONFIG, or ./bluetick.toml if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Args, Clone, Debug, Default)]
pub struct RestoredArgs {
    #[command(flatten)]
    pub tables: TablesArgs,
    /// Skip the question; required without a terminal
    #[arg(long)]
    pub yes: bool,
}

#[cfg(feature = "fleet")]
impl TablesArgs {
    pub fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }
}

/// Help text of `bluetick tables`, below the flags.
const TABLES_HELP: &str = "\
For `store.engine = \"dynamodb\"`: DynamoDB or a compatible store. The settings name the endpoint, the
region and the prefix of the table names (store.dynamodb). Credentials come from the standard AWS
chain, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

Examples:
  bluetick tables create --config /etc/bluetick.toml
  bluetick tables check
  bluetick tables restored";

/// Help text of `bluetick tables restored`, below the flags.
const TABLES_RESTORED_HELP: &str = "\
A restore removes messages that clients have cached, and the tables allocate their seqs again. This
command raises the epoch of the tables. A client that reads another epoch drops its cache and reads
everything again.

Run it before the first node starts on the restored tables, because nodes read the epoch at start.
Redis must be empty, or store.redis.prefix must be new. The command asks you to type `yes`; --yes
skips the question.

Examples:
  BLUETICK_STORE__DYNAMODB__TABLE_PREFIX=restored_ bluetick tables restored --yes";

/// Help text of `bluetick tables create`, below the flags.
const TABLES_CREATE_HELP: &str = "\
Tables are billed per request. Deletion protection and point-in-time recovery are on where the
engine supports them. The command keeps correct tables and deletes nothing, so you can repeat it.

Examples:
  bluetick tables create
  BLUETICK_STORE__DYNAMODB__TABLE_PREFIX=staging_ bluetick tables create";

/// Help text of `bluetick tables check`, below the flags.
const TABLES_CHECK_HELP: &str = "\
Changes nothing. Exit code 0: every table is correct; a feature that the engine does not support is
only reported. Exit code 1: a table is missing, has other keys, or is not protected. The output has
one line per table.

Examples:
  bluetick tables check
  bluetick tables check --config /etc/bluetick.toml";
