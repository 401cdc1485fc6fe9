//! `bluetick tables`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[cfg(feature = "fleet")]
use crate::settings::Flags;

#[derive(Debug, Subcommand)]
#[command(after_help = TABLES_HELP)]
pub enum TablesCommand {
    /// Make the tables that are missing, and protect all of them
    #[command(after_help = TABLES_CREATE_HELP)]
    Create(TablesArgs),
    /// Look whether the tables are as they must be
    #[command(after_help = TABLES_CHECK_HELP)]
    Check(TablesArgs),
    /// Tell clients to drop what they keep, after the tables were restored to an earlier moment
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
    /// Skip the question; needed where there is no terminal to ask on
    #[arg(long)]
    pub yes: bool,
}

#[cfg(feature = "fleet")]
impl TablesArgs {
    pub fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), ..Flags::default() }
    }
}

const TABLES_HELP: &str = "\
For the store `dynamodb` alone: DynamoDB, or anything that speaks its API. Which engine, which region
and what the names of the tables start with is in the settings (store.dynamodb); keys come from where
Amazon's own tools look for them, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

Examples:
  bluetick tables create --config /etc/bluetick.toml
  bluetick tables check
  bluetick tables restored";

const TABLES_RESTORED_HELP: &str = "\
After a restore, messages that devices have are gone from the tables, and their places are given out
again. This raises the epoch of the tables; a device that is told another epoch drops what it keeps and
reads anew. Give it before the first node starts on the restored tables: nodes read the epoch when they
start, and clients that move between nodes of two epochs read everything anew each time. Redis must be
empty then, or have another store.redis.prefix. Asks you to type `yes`; --yes skips the question.

Examples:
  BLUETICK_STORE__DYNAMODB__TABLE_PREFIX=restored_ bluetick tables restored --yes";

const TABLES_CREATE_HELP: &str = "\
Tables are billed by request, with deletion protection and point-in-time recovery on where the engine
knows them. What is there and right is left alone; nothing is ever deleted, so it may be given again.

Examples:
  bluetick tables create
  BLUETICK_STORE__DYNAMODB__TABLE_PREFIX=staging_ bluetick tables create";

const TABLES_CHECK_HELP: &str = "\
Changes nothing. Exit code 0: all is well; what the engine does not know is only told. 1: a table is
missing, has other keys, or is not protected; a line for each says which.

Examples:
  bluetick tables check
  bluetick tables check --config /etc/bluetick.toml";
