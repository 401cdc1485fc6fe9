//! `bluetick plan`.

use clap::Args;

use crate::plan::Assumptions;

#[derive(Args, Debug)]
#[command(after_help = PLAN_HELP)]
pub struct PlanArgs {
    #[command(flatten)]
    pub assumptions: Assumptions,
    /// Show how each figure comes about
    #[arg(long)]
    pub explain: bool,
    /// Only what a message writes, and what it costs
    #[arg(long, conflicts_with_all = ["ladder", "json"])]
    pub brief: bool,
    /// One line for each size from a million to 100 billion messages a day, everything else as given
    #[arg(long, conflicts_with_all = ["explain", "json"])]
    pub ladder: bool,
    /// Print JSON, formulas included
    #[arg(long, conflicts_with = "explain")]
    pub json: bool,
}

const PLAN_HELP: &str = "\
For the store `dynamodb`: tables, Redis, nodes and dollars, beside a design that writes every row with
every message. Nothing is asked or changed; all of it is arithmetic on the flags. Numbers may be
written 100e9, 5m or 2b (k, m, b, t).

Prices are Amazon's list prices in us-east-1 since November 2024, on demand; set your own. Not in it:
load balancers, traffic between zones and to the internet, logs, support, discounts.

Examples:
  bluetick plan
  bluetick plan --messages-per-day 100b --explain
  bluetick plan --messages-per-day 5m --users 200k --members 4
  bluetick plan --ladder --flush-seconds 120
  bluetick plan --messages-per-day 1b --json";
