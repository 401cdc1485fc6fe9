//! Files in deploy/ and the operator documents name only existing settings, commands and metrics.

#![expect(clippy::unwrap_used, reason = "a test may stop where its own set-up fails")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use bluetick_testkit::http;
use bluetick_testkit::process::Launcher;
use support::Shell;
use toml::{Table, Value};
use yaml_rust2::{Yaml, YamlLoader};

/// The source of the metrics of fleet nodes. This test starts no fleet node.
const FLEET_METRICS: &str = include_str!("../../server/src/metrics.rs");

/// Environment variables of the binary that are not settings.
const NOT_SETTINGS: [&str; 3] = ["BLUETICK_CONFIG", "BLUETICK_LOG", "BLUETICK_TOKEN"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below deploy/, with their paths.
fn deployed() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(found.len() > 10, "deploy/ has become small");
    found
}

/// All guides, and the explanation of the fleet.
fn operators_documents() -> Vec<(PathBuf, String)> {
    let guides = fs::read_dir(root().join("docs/guides")).unwrap().map(|entry| entry.unwrap().path());
    let paths: Vec<PathBuf> = guides.chain([root().join("docs/explanation/fleet.md")]).collect();
    assert!(paths.len() > 10, "docs/guides has become small");
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The keys of all settings, as printed by `bluetick config example`.
fn catalogue() -> BTreeSet<String> {
    let printed = Shell::new().run(&["config", "example"]).printed();
    let mut section = String::new();
    let mut keys = BTreeSet::new();
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.into();
        } else if let Some((name, _)) = line.strip_prefix('#').and_then(|rest| rest.split_once(" = "))
            && !name.starts_with(' ')
        {
            keys.insert(format!("{section}.{name}"));
        }
    }
    assert!(keys.contains("limits.sends_per_second"), "{keys:?}");
    keys
}

fn key_of(variable: &str) -> String {
    variable.trim_start_matches("BLUETICK_").to_ascii_lowercase().replace("__", ".")
}

/// The words of letters, digits and underscores that begin with `prefix`.
fn words<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = &'a str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(move |word| word.len() > prefix.len() && word.starts_with(prefix))
}

fn flatten(section: &str, table: &Table, keys: &mut Vec<(String, Value)>) {
    for (name, value) in table {
        let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
        match value {
            Value::Table(table) => flatten(&key, table, keys),
            value => keys.push((key, value.clone())),
        }
    }
}

fn settings_file(text: &str) -> Vec<(String, Value)> {
    let mut keys = Vec::new();
    flatten("", &text.parse().unwrap(), &mut keys);
    keys
}

#[test]
fn every_deployed_environment_variable_is_a_setting() {
    let known = catalogue();
    for (path, text) in deployed().into_iter().chain(operators_documents()) {
        for variable in words(&text, "BLUETICK_").filter(|word| !NOT_SETTINGS.contains(word)) {
            let key = key_of(variable);
            assert!(
                known.contains(&key),
                "{} names {variable}, and there is no setting {key}",
                path.display()
            );
        }
    }
}

#[test]
fn every_key_in_deployed_settings_files_is_a_setting_even_commented_out() {
    let known = catalogue();
    let files =
        deployed().into_iter().filter(|(path, _)| path.extension().is_some_and(|kind| kind == "toml"));
    let mut seen = 0;
    for (path, text) in files {
        let looks_like_a_setting = |line: &&str| line.starts_with('[') || line.contains(" = ");
        let commented = text.lines().filter_map(|line| line.strip_prefix("# ")).filter(looks_like_a_setting);
        let commented = commented.collect::<Vec<_>>().join("\n");
        for (key, _) in settings_file(&text).into_iter().chain(settings_file(&commented)) {
            assert!(known.contains(&key), "{} sets {key}, and there is no such setting", path.display());
            seen += 1;
        }
    }
    assert!(seen > 10);
}

#[test]
fn deployed_settings_pass_config_check() {
    for (path, text) in deployed() {
        let shell = Shell::new();
        let mut command = shell.command(&["config", "check", "--settings-only"]);
        let kind = path.extension().and_then(|kind| kind.to_str());
        if kind == Some("toml") {
            let mut kept = String::new();
            for (key, value) in settings_file(&text) {
                kept += &format!("{key} = {value}\n");
            }
            shell.file("bluetick.toml", &kept);
        } else if kind == Some("yaml") {
            for document in YamlLoader::load_from_str(&text).unwrap() {
                for (variable, value) in variables(&document) {
                    if variable != "BLUETICK_CONFIG" {
                        command.env(variable, value);
                    }
                }
            }
        } else {
            continue;
        }
        let output = command.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {complaint}", path.display());
    }
}

/// The `BLUETICK_*` variables at any depth, with their values. A long text replaces values that
/// Compose substitutes.
fn variables(yaml: &Yaml) -> Vec<(String, String)> {
    match yaml {
        Yaml::Hash(fields) => {
            let of_field = |(name, value): (&Yaml, &Yaml)| match (name.as_str(), value.as_str()) {
                (Some(name), Some(value)) if name.starts_with("BLUETICK_") => {
                    let filled =
                        if value.contains("${") { "0123456789abcdef".repeat(4) } else { value.into() };
                    vec![(name.to_owned(), filled)]
                }
                _ => variables(value),
            };
            fields.iter().flat_map(of_field).collect()
        }
        Yaml::Array(items) => items.iter().flat_map(variables).collect(),
        _ => Vec::new(),
    }
}

/// A client in a trusted network has no address limits, and one whose header is kept can choose its
/// address.
#[test]
fn balancer_of_compose_is_the_only_trusted_proxy_and_replaces_the_clients_header() {
    let read = |name: &str| fs::read_to_string(root().join("deploy").join(name)).unwrap();
    let balancer = read("haproxy.cfg");
    assert!(balancer.contains("\n    http-request set-header X-Forwarded-For %[src]\n"), "{balancer}");
    assert!(
        !balancer.contains("option forwardfor"),
        "`option forwardfor` would append to the client's header"
    );
    let compose = &YamlLoader::load_from_str(&read("compose.yaml")).unwrap()[0];
    let address = &compose["services"]["balancer"]["networks"]["default"]["ipv4_address"];
    let settings = &compose["x-bluetick"]["environment"];
    assert_eq!(address.as_str(), settings["BLUETICK_SERVER__TRUSTED_PROXIES"].as_str());
    let hostnames = settings["BLUETICK_SERVER__HOSTNAMES"].as_str().unwrap();
    assert!(hostnames.split(',').any(|name| name == "localhost"), "the Host check is on");
}

#[test]
fn every_deployed_yaml_file_parses() {
    let is_yaml = |path: &Path| path.extension().is_some_and(|kind| kind == "yaml");
    for (path, text) in deployed().into_iter().filter(|(path, _)| is_yaml(path)) {
        let documents = YamlLoader::load_from_str(&text);
        let documents = documents.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!documents.is_empty() && documents.iter().all(|document| document.as_hash().is_some()));
        if path.parent().is_some_and(|folder| folder.ends_with("kubernetes")) {
            for document in &documents {
                assert!(document["apiVersion"].as_str().is_some() && document["kind"].as_str().is_some());
            }
        }
    }
}

#[test]
fn kustomization_lists_every_manifest_except_the_example() {
    let folder = root().join("deploy/kubernetes");
    let text = fs::read_to_string(folder.join("kustomization.yaml")).unwrap();
    let kustomization = &YamlLoader::load_from_str(&text).unwrap()[0];
    let taken = kustomization["resources"].as_vec().unwrap();
    let taken: BTreeSet<String> = taken.iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let there = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there
        .filter(|name| name.ends_with(".yaml"))
        .filter(|name| name != "kustomization.yaml" && name != "secret.example.yaml")
        .collect();
    assert_eq!(taken, there);
}

#[test]
fn termination_grace_period_exceeds_the_drain_time() {
    let read = |name: &str| fs::read_to_string(root().join("deploy").join(name)).unwrap();
    let number = |text: &str, before: &str| -> u64 {
        let after = text.split_once(before).unwrap_or_else(|| panic!("no {before}")).1;
        after
            .trim_start_matches(['"', ' '])
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let settings = read("kubernetes/bluetick.toml");
    let needed = number(&settings, "drain_delay_seconds = ") + number(&settings, "\ndrain_seconds = ");
    assert!(number(&read("kubernetes/deployment.yaml"), "terminationGracePeriodSeconds:") > needed);
    let compose = read("compose.yaml");
    let needed = number(&compose, "DRAIN_DELAY_SECONDS:") + number(&compose, "DRAIN_SECONDS:");
    assert!(number(&compose, "stop_grace_period:") > needed);
    let drain = number(&read("systemd/bluetick.toml"), "drain_seconds = ");
    assert!(number(&read("systemd/bluetick.service"), "TimeoutStopSec=") > drain);
}

#[tokio::test]
async fn every_metric_named_in_alerts_and_documents_is_exported() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), directory.path()).start().await;
    let counted = http::get_text(&server.address, "/metrics").await.unwrap();
    let base = |word: &str| {
        ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word).to_owned()
    };
    let known: BTreeSet<String> = words(&counted, "bluetick_").map(base).collect();
    for (path, text) in deployed().into_iter().chain(operators_documents()) {
        let is_rules = path.ends_with("prometheus/alerts.yaml");
        let is_document = path.extension().is_some_and(|kind| kind == "md");
        if !is_rules && !is_document {
            continue;
        }
        for word in words(&text, "bluetick_") {
            let name = word.trim_start_matches("bluetick_").trim_end_matches("_total");
            let is_counted = known.contains(&base(word)) || FLEET_METRICS.contains(&format!("\"{name}\""));
            assert!(is_counted, "{} names {word}, which is not a metric of the server", path.display());
        }
    }
}

#[tokio::test]
async fn image_health_check_succeeds_with_a_ready_server_and_fails_without() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), directory.path()).start().await;
    let (shell, address) = (Shell::new(), server.address.clone());
    let url = format!("http://{address}");
    assert_eq!(shell.run(&["health", "--url", &url]).printed(), "");
    let listen = ("BLUETICK_SERVER__LISTEN", address.as_str());
    assert_eq!(shell.run_with(listen, &["health"]).printed(), "", "the settings say where it listens");
    server.kill().await;
    let outcome = shell.run(&["health", "--url", &url]);
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.contains("no server answers on"), "{}", outcome.stderr);
}
