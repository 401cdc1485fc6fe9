//! `bluetick plan` on the command line, and its figures in the documents.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::Shell;

/// Precedes each block of figures in a document and names the flags that print it.
const MARK: &str = "<!-- bluetick plan ";
/// Starts a block of figures in a document.
const FENCE: &str = "\n```text\n";

#[test]
fn figures_in_documents_match_the_plan_command() {
    for (name, least) in [("guides/sizing.md", 1), ("explanation/fleet.md", 2)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text = fs::read_to_string(&path).unwrap();
        let (renewed, blocks) = with_figures(&text);
        assert!(blocks >= least, "the plan has left docs/{name}");
        if std::env::var_os("BLUETICK_BLESS").is_some() {
            fs::write(&path, renewed).unwrap();
        } else {
            assert!(
                text == renewed,
                "docs/{name} is stale: BLUETICK_BLESS=1 cargo test -p bluetick --test plan"
            );
        }
    }
}

/// Returns the document with updated figures, and the number of its blocks.
fn with_figures(text: &str) -> (String, usize) {
    let mut renewed = String::new();
    let mut rest = text;
    let mut blocks = 0;
    while let Some((before, after)) = rest.split_once(MARK) {
        let (flags, after) = after.split_once("-->").unwrap();
        let block = after.strip_prefix(FENCE).unwrap_or_else(|| panic!("no figures follow {flags}"));
        let (_, after) = block.split_once("```").unwrap();
        let arguments: Vec<&str> = ["plan"].into_iter().chain(flags.split_whitespace()).collect();
        let printed = Shell::new().run(&arguments).printed();
        renewed += &format!("{before}{MARK}{flags}-->{FENCE}{printed}```");
        rest = after;
        blocks += 1;
    }
    renewed += rest;
    (renewed, blocks)
}

#[test]
fn plan_flags_accept_numbers_with_suffixes_and_separators() {
    let shell = Shell::new();
    let short = shell.run(&["plan", "--messages-per-day", "100b"]).printed();
    let long = shell.run(&["plan", "--messages-per-day", "100e9"]).printed();
    assert!(short.starts_with("100,000,000,000 messages a day"), "{short}");
    assert_eq!(short, long);
}

#[test]
fn json_contains_every_figure_with_its_formula_and_consistent_sums() {
    let printed = Shell::new().run(&["plan", "--messages-per-day", "1b", "--json"]).printed();
    let plan: Value = serde_json::from_str(&printed).unwrap();
    let number = |value: &Value| value.as_f64().unwrap();
    assert_eq!(number(&plan["assumptions"]["messages_per_day"]), 1e9);
    let writes: f64 =
        plan["writes"].as_array().unwrap().iter().map(|write| number(&write["here"]["value"])).sum();
    let cost = plan["costs"].as_array().unwrap().iter().find(|cost| cost["what"] == "table writes").unwrap();
    let dollars = number(&cost["dollars_per_million_messages"]);
    assert!((dollars - writes * 0.625).abs() < 1e-9, "{dollars} for {writes} units");
    assert!(plan["nodes"]["formula"].as_str().unwrap().contains("connections/100,000"), "{printed}");
}

#[test]
fn price_flags_replace_the_default_prices() {
    let prices = ["write", "read", "table", "backup", "object", "put", "redis", "node"];
    let free: Vec<String> = prices.iter().map(|what| format!("--{what}-price=0")).collect();
    let free: Vec<&str> = ["plan", "--json"].into_iter().chain(free.iter().map(String::as_str)).collect();
    let plan: Value = serde_json::from_str(&Shell::new().run(&free).printed()).unwrap();
    for cost in plan["costs"].as_array().unwrap() {
        assert_eq!(cost["dollars"]["value"].as_f64(), Some(0.0), "{cost}");
    }
}

#[test]
fn invalid_plan_arguments_are_refused() {
    let shell = Shell::new();
    for arguments in [
        &["plan", "--messages-per-day", "many"][..],
        &["plan", "--messages-per-day", "0"],
        &["plan", "--online-share", "2"],
        &["plan", "--burst", "0.5"],
        &["plan", "--node-price=-1"],
        &["plan", "--json", "--explain"],
    ] {
        assert_eq!(shell.run(arguments).code, 2, "{arguments:?}");
    }
}

#[test]
fn plan_help_contains_examples() {
    let printed = Shell::new().run(&["plan", "--help"]).printed();
    assert!(
        printed.contains("Examples:") && printed.contains("  bluetick plan --messages-per-day"),
        "{printed}"
    );
}
