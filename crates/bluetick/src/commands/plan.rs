//! `bluetick plan`: calculates what a fleet needs and what it costs.

use crate::cli::PlanArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::plan::{Plan, ladder};

pub fn run(arguments: &PlanArgs) -> Result<(), Failure> {
    let plan = || Plan::new(&arguments.assumptions);
    let text = if arguments.ladder {
        ladder(&arguments.assumptions)
    } else if arguments.json {
        let json = serde_json::to_string_pretty(&plan()).expect("a plan is plain data");
        json + "\n"
    } else if arguments.brief {
        plan().show_brief(arguments.explain)
    } else {
        plan().show(arguments.explain)
    };
    print(&text)
}
