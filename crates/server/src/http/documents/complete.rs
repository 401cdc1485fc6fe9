//! Completes the OpenAPI document with parts that follow from the whole: servers, security, error
//! responses and the titles of union members. The routes declare everything else.

use serde_json::{Map, Value, json};

use super::errors;

/// Returns the document with these parts added. It changes no path, field or component name.
pub(super) fn complete(mut document: Value) -> Value {
    document["servers"] = json!([{
        "url": "/",
        "description": "This server: production, or the local one that served the document",
        "x-internal": false,
    }]);
    document["info"]["contact"] = json!({ "name": "The operator of this server" });
    document["x-error-codes"] = bluetick_wire::document::error_codes();
    if let Some(description) = document["info"]["description"].as_str() {
        document["info"]["description"] =
            format!("{description}\n\n{}", bluetick_wire::document::error_section()).into();
    }
    let mut responses = Map::new();
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            complete_operation(method, path, operation, &mut responses);
        }
    }
    document["components"]["responses"] = responses.into();
    add_integer_formats(&mut document["components"]["schemas"]);
    let mut names = Vec::new();
    title_inline_members(&mut document, &mut names);
    for name in names {
        let schema = &mut document["components"]["schemas"][&name];
        if schema.get("title").is_none() {
            schema["title"] = title_of(&name).into();
        }
    }
    document
}

fn complete_operation(method: &str, path: &str, operation: &mut Value, components: &mut Map<String, Value>) {
    let errors = errors::responses(method, path, operation, components);
    let Some(operation) = operation.as_object_mut() else { return };
    // An operation without security is public, which an empty list declares.
    operation.entry("security").or_insert_with(|| json!([]));
    let responses = operation.entry("responses").or_insert_with(|| Value::Object(Map::new()));
    for (status, response) in errors {
        if responses.get(&status).is_none() {
            responses[status] = response;
        }
    }
}

/// Sets the format of each integer that has none: the fields of the type `usize`.
fn add_integer_formats(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_integer_formats),
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "integer") && !fields.contains_key("format") {
                fields.insert("format".into(), "int64".into());
            }
            fields.values_mut().for_each(add_integer_formats);
        }
        _ => {}
    }
}

/// Gives each `null` member of a union a title and collects the names of the components that are
/// members of a union.
fn title_inline_members(value: &mut Value, names: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| title_inline_members(item, names)),
        Value::Object(fields) => {
            for union in ["oneOf", "anyOf"] {
                for member in fields.get_mut(union).and_then(Value::as_array_mut).into_iter().flatten() {
                    if let Some(reference) = member["$ref"].as_str() {
                        names.extend(reference.rsplit('/').next().map(str::to_owned));
                    } else if member["type"] == "null" {
                        member["title"] = "None".into();
                    }
                }
            }
            fields.values_mut().for_each(|field| title_inline_members(field, names));
        }
        _ => {}
    }
}

/// Returns a title for a component: `RunReportBody` becomes `Run report`.
fn title_of(name: &str) -> String {
    let name = name.strip_suffix("Body").or_else(|| name.strip_suffix("Request")).unwrap_or(name);
    let mut title = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_uppercase() {
            title.push(' ');
        }
        title.extend(if at == 0 { vec![letter] } else { letter.to_lowercase().collect() });
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
        let paths = document["paths"].as_object().expect("paths").iter();
        paths.flat_map(|(path, item)| {
            let item = item.as_object().expect("an item");
            item.iter().map(move |(method, operation)| (path, method, operation))
        })
    }

    #[test]
    fn every_operation_has_summary_description_and_security() {
        let document = crate::http::openapi_document();
        for (path, method, operation) in operations(&document) {
            let summary = operation["summary"].as_str().unwrap_or_default();
            assert!((1..60).contains(&summary.len()), "{method} {path}: summary {summary:?}");
            assert!(!summary.ends_with('.'), "{method} {path}: {summary}");
            assert!(operation["description"].is_string(), "{method} {path} has no description");
            assert!(operation["security"].is_array(), "{method} {path} has no security");
        }
    }

    #[test]
    fn every_v1_operation_lists_client_and_server_errors_with_the_error_schema() {
        let document = crate::http::openapi_document();
        for (path, method, operation) in operations(&document).filter(|(path, ..)| path.starts_with("/v1/")) {
            let responses = operation["responses"].as_object().expect("responses");
            for class in ['4', '5'] {
                let mut listed = responses.iter().filter(|(status, _)| status.starts_with(class)).peekable();
                assert!(listed.peek().is_some(), "{method} {path} lists no {class}xx");
                for (status, response) in listed {
                    let reference = response["$ref"].as_str().unwrap_or_default();
                    let response = document.pointer(reference.trim_start_matches('#')).unwrap_or(response);
                    if reference.ends_with("/MalformedRequest") {
                        continue;
                    }
                    let schema = &response["content"]["application/json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/ErrorBody", "{method} {path} {status}");
                }
            }
            let needs_key = operation["security"].as_array().is_some_and(|any| !any.is_empty());
            assert!(!needs_key || responses.contains_key("401"), "{method} {path} lists no 401");
        }
    }

    #[test]
    fn every_union_member_has_a_title() {
        fn check(root: &Value, at: &str, value: &Value, seen: &mut usize) {
            if let Value::Object(fields) = value {
                for member in ["oneOf", "anyOf"].iter().filter_map(|key| value[*key].as_array()).flatten() {
                    let pointer = member["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
                    let target = pointer.map_or(Some(member), |pointer| root.pointer(pointer));
                    assert!(target.is_some_and(|target| target["title"].is_string()), "{at}: {member}");
                    *seen += 1;
                }
                fields.iter().for_each(|(key, field)| check(root, &format!("{at}/{key}"), field, seen));
            }
            if let Value::Array(items) = value {
                items.iter().for_each(|item| check(root, at, item, seen));
            }
        }
        let document = crate::http::openapi_document();
        let mut seen = 0;
        check(&document, "", &document, &mut seen);
        assert!(seen >= 20, "only {seen} union members");
    }

    #[test]
    fn component_name_becomes_a_title_in_words() {
        assert_eq!(title_of("RunReportBody"), "Run report");
        assert_eq!(title_of("LogoutRequest"), "Logout");
    }
}
