//! The Markdown documents agree with the program: links and anchors resolve, and every command,
//! setting, route, frame and metric that they name exists.
//!
//! The generated pages of docs/reference equal what the program prints. `BLUETICK_BLESS=1` rewrites
//! them. The ADRs in docs/adr are a record and are not checked.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod documents {
    pub mod commands;
    pub mod generated;
    pub mod links;
    pub mod markdown;
    pub mod reference;
    pub mod settings;
}
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bluetick_testkit::http;
use bluetick_testkit::process::Launcher;
use documents::commands::Commands;
use documents::markdown::{Document, all_documents};
use documents::settings::Catalogue;
use documents::{generated, links, reference};

/// The command that rewrites the generated pages.
const HOW: &str = "BLUETICK_BLESS=1 cargo test -p bluetick --test documents";

/// The source of the metrics of fleet nodes. This test starts no fleet node.
const METRICS_SOURCE: &str = include_str!("../../server/src/metrics.rs");

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn page(name: &str) -> Document {
    Document::read(&root(), Path::new("docs/reference").join(name))
}

/// Asserts that a check found no problem, and lists all of them otherwise.
#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Compares a generated page with the committed one. Rewrites it first with `BLUETICK_BLESS`.
#[track_caller]
fn assert_committed(name: &str, generated: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("BLUETICK_BLESS").is_some() {
        fs::write(&path, generated).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "docs/reference/{name} is stale: {HOW}");
}

#[test]
fn links_and_anchors_of_all_documents_resolve() {
    let documents = all_documents(&root());
    let (checked, problems) = links::problems(&root(), &documents);
    assert_none(&problems);
    assert!(checked > 100, "only {checked} links were found");
}

#[test]
fn files_that_the_documents_name_exist() {
    let documents = all_documents(&root());
    let (checked, problems) = links::missing_files(&root(), &documents);
    assert_none(&problems);
    assert!(checked > 50, "only {checked} files were found");
}

#[test]
fn commands_and_flags_in_all_documents_exist() {
    let mut commands = Commands::default();
    let problems: Vec<String> =
        all_documents(&root()).iter().flat_map(|document| commands.problems(document)).collect();
    assert_none(&problems);
    assert!(commands.checked > 100, "only {} commands were found", commands.checked);
}

#[test]
fn lines_of_shell_blocks_begin_with_a_command() {
    let mut commands = Commands::default();
    let problems: Vec<String> =
        all_documents(&root()).iter().flat_map(|document| commands.prose_problems(document)).collect();
    assert_none(&problems);
    assert!(commands.checked > 80, "only {} lines were found", commands.checked);
}

#[test]
fn settings_and_variables_in_all_documents_exist() {
    let mut catalogue = Catalogue::of_the_program();
    let problems: Vec<String> =
        all_documents(&root()).iter().flat_map(|document| catalogue.problems(document)).collect();
    assert_none(&problems);
    assert!(catalogue.checked > 100, "only {} settings were found", catalogue.checked);
}

#[test]
fn configuration_reference_equals_the_settings_of_the_program() {
    assert_committed("configuration.md", &generated::configuration(&Catalogue::of_the_program()));
}

#[test]
fn command_line_reference_equals_the_help_texts() {
    assert_committed("cli.md", &generated::command_line(&mut Commands::default()));
}

#[test]
fn http_reference_lists_the_routes_of_openapi_json() {
    let described = reference::described_routes(&root());
    assert!(described.len() > 30, "{described:?}");
    assert_eq!(reference::listed_routes(&page("http.md")), described);
}

#[test]
fn websocket_reference_describes_the_frames_of_websocket_json() {
    assert_none(&reference::frame_problems(&page("websocket.md"), &root()));
}

#[test]
fn websocket_reference_lists_every_close_code() {
    let described = reference::described_close_codes(&root());
    assert!(described.len() > 10, "{described:?}");
    assert_eq!(reference::listed_close_codes(&page("websocket.md")), described);
}

#[tokio::test]
async fn metrics_reference_lists_what_a_server_exports() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), directory.path()).start().await;
    let exported = http::get_text(&server.address, "/metrics").await.unwrap();
    let exported = reference::exported_metrics(&exported);
    assert!(exported.len() > 20, "{exported:?}");
    let page = page("metrics.md");
    let (fleet, every_server): (BTreeSet<_>, BTreeSet<_>) =
        reference::listed_metrics(&page).into_iter().partition(|metric| metric.section == "Fleet");
    let every_server: BTreeSet<_> = every_server.into_iter().map(|listed| listed.metric).collect();
    assert_eq!(every_server, exported);
    let fleet: BTreeSet<String> = fleet.into_iter().map(|listed| listed.metric.name).collect();
    assert_eq!(fleet, reference::fleet_metrics(METRICS_SOURCE));
}

/// A document with one mistake of each kind. The checks above are worth something only while each
/// mistake is found.
mod planted {
    use super::*;

    fn document(text: &str) -> Document {
        Document { path: "docs/planted.md".into(), text: text.into() }
    }

    fn link_problems(text: &str) -> Vec<String> {
        links::problems(&root(), &[document(text)]).1
    }

    #[test]
    fn link_to_a_missing_file_or_anchor_is_found() {
        assert_none(&link_problems("# Here\n\n[a](errors.md#error-codes), [b](#here), [c](../README.md)\n"));
        let missing = link_problems("[a page](no-such-page.md) and ![a picture](none.svg)");
        assert_eq!(missing.len(), 2, "{missing:?}");
        assert_eq!(link_problems("[codes](errors.md#no-such-anchor)").len(), 1);
        assert_eq!(link_problems("# Here\n\n[up](#there)").len(), 1);
        assert_eq!(link_problems("[wrapped\ntext](no-such-page.md)").len(), 1);
        assert_eq!(link_problems("[later][id]\n\n[id]: no-such-page.md\n").len(), 1);
        assert_none(&link_problems("`[code](no-such-page.md)`\n\n```sh\n[code](no-such-page.md)\n```\n"));
    }

    #[test]
    fn name_of_a_missing_file_is_found() {
        let (_, problems) = links::missing_files(&root(), &[document("See `crates/bluetick/src/none.rs`.")]);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn unknown_command_or_flag_is_found() {
        let problems = |text: &str| Commands::default().problems(&document(text));
        assert_none(&problems("`bluetick user add NAME`, `bluetick`, `bluetick COMMAND --help`"));
        assert_none(&problems(
            "```sh\ncurl -H \"Bearer $(bluetick token alice --ttl 1h)\" # bluetick no\n```",
        ));
        assert_eq!(problems("`bluetick usr add alice`").len(), 1);
        assert_eq!(problems("`bluetick user delete alice`").len(), 1);
        assert_eq!(problems("```sh\nbluetick token alice \\\n  --forever\n```").len(), 1);
        assert_eq!(problems("```sh\nX=$(sudo -u chat ./bluetick tokn alice)\n```").len(), 1);
        assert_eq!(problems("```sh\ncargo run --release -- serv\n```").len(), 1);
        assert_eq!(problems("```sh\ndocker compose exec node -- bluetick serv\n```").len(), 1);
    }

    #[test]
    fn prose_in_a_shell_block_is_found() {
        let problems =
            |text: &str| Commands::default().prose_problems(&document(&format!("```sh\n{text}\n```")));
        assert_none(&problems("cargo build\n\n# first\nA=1 bluetick\nf() {\n  x\n}\ncurl a \\\n-d b"));
        assert_eq!(problems("bluetick check  # looks for damage and\nlists it bluetick health").len(), 1);
        assert_eq!(problems("not fill an object bluetick archive verify").len(), 1);
    }

    #[test]
    fn unknown_setting_or_variable_is_found() {
        let problems = |text: &str| Catalogue::of_the_program().problems(&document(text));
        assert_none(&problems("`limits.outbox_bytes`, `archive.engine = \"s3\"`, `[store.redis]`"));
        assert_none(&problems("```toml\n[limits]\nsends_per_second = 0\n```\n\n`store.rs`"));
        assert_none(&problems("The act `archive.run` in `audit.log.1`."));
        assert_eq!(problems("`limits.outbox_kilobytes`").len(), 1);
        assert_eq!(problems("`archive.engin = \"s3\"`").len(), 1);
        assert_eq!(problems("`[store.rediss]`").len(), 1);
        assert_eq!(problems("```toml\n[limits]\nsend_per_second = 0\n```").len(), 1);
        assert_eq!(problems("Set BLUETICK_LIMITS__OUTBOX=0.").len(), 1);
        assert_eq!(problems("```yaml\nBLUETICK_SERVER__LISTN: x\n```").len(), 1);
    }
}
