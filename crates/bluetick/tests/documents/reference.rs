//! Compares the tables of docs/reference with the descriptions of the API and with `/metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::markdown::{Block, Document};

/// A method and a path.
pub type Route = (String, String);

fn json(root: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(root.join("docs").join(name)).unwrap()).unwrap()
}

/// Returns the words in backticks of a cell.
fn code(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns the routes of docs/openapi.json.
pub fn described_routes(root: &Path) -> BTreeSet<Route> {
    /// The keys of an OpenAPI path that are methods.
    const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
    let document = json(root, "openapi.json");
    let mut routes = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys().filter(|key| METHODS.contains(&key.as_str())) {
            routes.insert((method.to_ascii_uppercase(), path.clone()));
        }
    }
    routes
}

/// Returns the routes in the first two columns of the tables of a page.
pub fn listed_routes(page: &Document) -> BTreeSet<Route> {
    let rows = page.rows().into_iter().filter(|(_, cells)| cells.len() > 1 && cells[1].starts_with("`/"));
    rows.map(|(_, cells)| (code(&cells[0]).remove(0), code(&cells[1]).remove(0))).collect()
}

/// Returns the close codes of docs/websocket.json with their names.
pub fn described_close_codes(root: &Path) -> BTreeMap<u64, String> {
    let document = json(root, "websocket.json");
    let codes = document["x-close-codes"].as_array().unwrap().iter();
    codes.map(|code| (code["code"].as_u64().unwrap(), code["name"].as_str().unwrap().to_owned())).collect()
}

/// Returns the close codes in the first two columns of the tables of a page.
pub fn listed_close_codes(page: &Document) -> BTreeMap<u64, String> {
    let rows = page.rows().into_iter().filter(|(section, _)| section == "Close codes");
    let rows = rows.filter_map(|(_, cells)| Some((cells[0].parse().ok()?, code(cells.get(1)?).remove(0))));
    rows.collect()
}

/// Returns the differences between the sections of a page and the frames of docs/websocket.json.
/// The page has a heading of level 3 for each frame, with a table of its fields and an example.
pub fn frame_problems(page: &Document, root: &Path) -> Vec<String> {
    let document = json(root, "websocket.json");
    let mut problems = Vec::new();
    for (side, heading, suffix) in [
        ("fromClient", "Frames from the client", "_by_client"),
        ("fromServer", "Frames from the server", "_by_server"),
    ] {
        let listed = frames_below(page, heading);
        let mut described = BTreeSet::new();
        for reference in document["operations"][side]["messages"].as_array().unwrap() {
            let name = last_part(&reference["$ref"]);
            let title = name.trim_end_matches(suffix).to_owned();
            let message = &document["components"]["messages"][name];
            match listed.get(&title) {
                Some(section) => problems.extend(section.problems(&title, message, &document)),
                None => problems.push(format!("{heading}: no section `{title}`")),
            }
            described.insert(title);
        }
        let unknown = listed.keys().filter(|title| !described.contains(*title));
        problems.extend(unknown.map(|title| format!("{heading}: there is no frame `{title}`")));
    }
    problems
}

/// The section of a frame: the fields of its table, and its examples.
struct FrameSection {
    fields: BTreeSet<String>,
    examples: Vec<Value>,
}

impl FrameSection {
    fn problems(&self, title: &str, message: &Value, document: &Value) -> Vec<String> {
        let schemas = &document["components"]["schemas"];
        let mut fields = BTreeSet::new();
        collect_fields(&schemas[last_part(&message["payload"]["$ref"])], schemas, &mut fields);
        fields.remove("type");
        let mut problems = Vec::new();
        if fields != self.fields {
            problems.push(format!("`{title}` has the fields {fields:?}, the page lists {:?}", self.fields));
        }
        let described: Vec<&Value> =
            message["examples"].as_array().unwrap().iter().map(|example| &example["payload"]).collect();
        let differs = self.examples.iter().any(|example| !described.contains(&example));
        if differs || self.examples.is_empty() {
            problems.push(format!("`{title}` has the example {described:?}"));
        }
        problems
    }
}

/// Returns the sections of level 3 below a heading of level 2.
fn frames_below(page: &Document, heading: &str) -> BTreeMap<String, FrameSection> {
    let start = page.text.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &page.text[start + 4..];
    let rest = rest.find("\n## ").map_or(rest, |end| &rest[..end]);
    let mut sections = BTreeMap::new();
    for section in rest.split("\n### ").skip(1) {
        let part = Document { path: page.path.clone(), text: format!("### {section}") };
        let title = code(section.lines().next().unwrap()).remove(0);
        let fields = part.rows().into_iter().flat_map(|(_, cells)| code(&cells[0])).collect();
        let is_json = |block: &Block| block.language == "json";
        let blocks = part.blocks().into_iter().filter(is_json);
        let examples = blocks.map(|block| serde_json::from_str(&block.code.text).unwrap()).collect();
        sections.insert(title, FrameSection { fields, examples });
    }
    sections
}

fn last_part(reference: &Value) -> &str {
    reference.as_str().unwrap().rsplit('/').next().unwrap()
}

/// Collects the names of the properties of a schema, also of those that it includes.
fn collect_fields(schema: &Value, schemas: &Value, fields: &mut BTreeSet<String>) {
    if schema["$ref"].is_string() {
        return collect_fields(&schemas[last_part(&schema["$ref"])], schemas, fields);
    }
    let properties = schema["properties"].as_object().into_iter().flatten();
    fields.extend(properties.map(|(name, _)| name.clone()));
    for part in schema["allOf"].as_array().into_iter().flatten() {
        collect_fields(part, schemas, fields);
    }
}

/// A metric as `/metrics` names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Metric {
    /// With `_total` for a counter.
    pub name: String,
    pub kind: String,
    pub labels: BTreeSet<String>,
}

/// A metric of the page, and its section.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub section: String,
    pub metric: Metric,
}

/// Reads the metrics from the text that a server exports.
pub fn exported_metrics(text: &str) -> BTreeSet<Metric> {
    let mut metrics = BTreeSet::new();
    for line in text.lines() {
        let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        let name = if kind == "counter" { format!("{family}_total") } else { family.to_owned() };
        let samples = text.lines().filter(|line| {
            let sample = line.split(['{', ' ']).next().unwrap();
            let base = |end: &str| sample.strip_suffix(end) == Some(family);
            sample == family || ["_total", "_bucket", "_sum", "_count"].into_iter().any(base)
        });
        let labels =
            samples.filter_map(|line| line.split_once('{')?.1.split_once('}')).map(|(labels, _)| labels);
        let names = labels.flat_map(|labels| labels.split("\",")).filter_map(|pair| pair.split('=').next());
        let labels = names.filter(|name| *name != "le").map(str::to_owned).collect();
        metrics.insert(Metric { name, kind: kind.to_owned(), labels });
    }
    metrics
}

/// Reads the metrics from the tables of a page: name, type, labels, meaning.
pub fn listed_metrics(page: &Document) -> BTreeSet<Listed> {
    let rows = page.rows().into_iter().filter(|(_, cells)| cells[0].starts_with("`bluetick_"));
    rows.map(|(section, cells)| {
        let metric = Metric {
            name: code(&cells[0]).remove(0),
            kind: cells[1].clone(),
            labels: code(&cells[2]).into_iter().collect(),
        };
        Listed { section, metric }
    })
    .collect()
}

/// Returns the names of the metrics of a fleet from the source of the server: the first text of
/// each registration in `fleet_registry`.
pub fn fleet_metrics(source: &str) -> BTreeSet<String> {
    let body = source.split_once("fn fleet_registry").unwrap().1.split_once("\n}\n").unwrap().0;
    let after_register = body.split("registry.register(").skip(1);
    let in_list = body.split("for (name, help, value) in [").nth(1).unwrap().split_once("\n    ]").unwrap().0;
    let after_parenthesis = in_list.split("        (").skip(1);
    let names = after_register.chain(after_parenthesis);
    let names = names.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
    let is_counter = |name: &&str| !["redis_up", "nodes"].contains(name);
    names.map(|name| format!("bluetick_{name}{}", if is_counter(&name) { "_total" } else { "" })).collect()
}
