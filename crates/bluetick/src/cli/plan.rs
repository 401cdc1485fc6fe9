//! `bluetick plan`.

use clap::Args;

use crate::plan::Assumptions;

#[derive(Args, Debug)]
#[command(after_help = PLAN_HELP)]
pub struct PlanArgs {
    #[command(flatten)]
    pub assumptions: Assumptions,
    /// Show the formula of each figure
    #[arg(long)]
    pub explain: bool,
    /// Show only the writes and the cost per message
    #[arg(long, conflicts_with_all = ["ladder", "json"])]
    pub brief: bool,
    /// One line per load from a million to 100 billion messages a day; other flags apply
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub ladder: bool,
    /// Print JSON, formulas included
    #[arg(long, conflicts_with = "explain")]
    pub json: bool,
}

/// Help text of `bluetick plan`, below the flags.
const PLAN_HELP: &str = "\
For the store `dynamodb`: calculates tables, Redis, nodes and dollars, compared with a design that
writes every row with every message. The command contacts no service; it calculates from the flags
only. Numbers may have the form 100e9, 5m or 2b (k, m, b, t).

Prices are Amazon's on-demand list prices in us-east-1 since November 2024; flags set your own.
Excluded: load balancers, traffic between zones and to the internet, logs, support, discounts.

Examples:
  bluetick plan
  bluetick plan --messages-per-day 100b --explain
  bluetick plan --messages-per-day 5m --users 200k --members 4
  bluetick plan --ladder --flush-seconds 120
  bluetick plan --messages-per-day 1b --json";
