//! The result of a run, as a table for humans and as JSON for programs.

use std::fmt::Write;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::latencies::{Latencies, Quantiles};

/// A workload's parameters, figures and remarks. Keys are stable and end with their unit.
#[derive(Debug)]
pub struct BenchReport {
    workload: &'static str,
    parameters: Vec<(&'static str, u64)>,
    rows: Vec<ReportRow>,
    remarks: Vec<String>,
}

#[derive(Debug)]
struct ReportRow {
    key: String,
    label: String,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Figure { number: f64, unit: String },
    Latencies(Quantiles),
}

impl BenchReport {
    pub fn new(workload: &'static str) -> BenchReport {
        BenchReport { workload, parameters: Vec::new(), rows: Vec::new(), remarks: Vec::new() }
    }

    pub fn parameter(mut self, key: &'static str, value: u64) -> BenchReport {
        self.parameters.push((key, value));
        self
    }

    pub fn figure(&mut self, key: impl Into<String>, label: impl Into<String>, number: f64, unit: &str) {
        let value = Value::Figure { number, unit: unit.to_owned() };
        self.rows.push(ReportRow { key: key.into(), label: label.into(), value });
    }

    pub fn latencies(&mut self, key: impl Into<String>, label: impl Into<String>, latencies: &Latencies) {
        let value = Value::Latencies(latencies.quantiles());
        self.rows.push(ReportRow { key: key.into(), label: label.into(), value });
    }

    /// Adds a remark that helps to interpret the figures.
    pub fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    pub fn table(&self) -> String {
        let mut table = format!("{}:", self.workload);
        for (at, (key, value)) in self.parameters.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            let _ = write!(table, "{comma} {} {}", key.replace('_', " "), grouped(*value));
        }
        table.push_str("\n\n");
        let width = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or(0);
        for row in &self.rows {
            let _ = match &row.value {
                Value::Figure { number, unit } => {
                    writeln!(table, "{:<width$} {:>16} {unit}", row.label, rounded(*number))
                }
                Value::Latencies(found) => writeln!(
                    table,
                    "{:<width$} {:>16} ms p50   {:.3} p99   {:.3} p99.9   {:.1} max",
                    row.label,
                    format!("{:.3}", found.p50_ms),
                    found.p99_ms,
                    found.p99_9_ms,
                    found.max_ms
                ),
            };
        }
        for remark in &self.remarks {
            let _ = writeln!(table, "\nnote: {remark}");
        }
        table
    }

    /// Returns the report as one JSON object: workload, parameters, figures, latencies, remarks.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a report holds strings and numbers only")
    }
}

/// Formats a number with a precision that fits its magnitude.
fn rounded(number: f64) -> String {
    if number >= 100.0 {
        return grouped(number.round() as u64);
    }
    if number.fract() == 0.0 {
        return format!("{number:.0}");
    }
    if number >= 0.1 { format!("{number:.2}") } else { format!("{number:.4}") }
}

/// Formats a number with thousands separators: 1234567 as 1,234,567.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl Serialize for BenchReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("workload", self.workload)?;
        map.serialize_entry("version", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("parameters", &InOrder(&self.parameters, |(key, value)| Some((*key, value))))?;
        map.serialize_entry(
            "figures",
            &InOrder(&self.rows, |row| match &row.value {
                Value::Figure { number, .. } => Some((row.key.as_str(), number)),
                Value::Latencies(_) => None,
            }),
        )?;
        map.serialize_entry(
            "latencies",
            &InOrder(&self.rows, |row| match &row.value {
                Value::Latencies(found) => Some((row.key.as_str(), found)),
                Value::Figure { .. } => None,
            }),
        )?;
        map.serialize_entry("remarks", &self.remarks)?;
        map.end()
    }
}

/// A JSON object whose fields keep the order of the underlying list.
struct InOrder<'a, T, V: ?Sized>(&'a [T], fn(&T) -> Option<(&str, &V)>);

impl<T, V: Serialize + ?Sized> Serialize for InOrder<'_, T, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in self.0.iter().filter_map(self.1) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report() -> BenchReport {
        let mut report = BenchReport::new("pairs").parameter("pairs", 2_000).parameter("window", 1);
        report.figure("stored_per_second", "stored and acknowledged", 123_456.7, "/s");
        let latencies = Latencies::default();
        latencies.record(Duration::from_micros(31));
        report.latencies("send_to_ack", "send to ack", &latencies);
        report.figure("fsyncs", "fsyncs", 7.0, "");
        report.remark("the machine was busy");
        report
    }

    #[test]
    fn table_lists_figures_in_the_given_order() {
        let expected = "pairs: pairs 2,000, window 1\n\n\
            stored and acknowledged          123,457 /s\n\
            send to ack                        0.031 ms p50   0.031 p99   0.031 p99.9   0.0 max\n\
            fsyncs                                 7 \n\n\
            note: the machine was busy\n";
        assert_eq!(report().table(), expected);
    }

    #[test]
    fn json_has_the_same_figures_by_key() {
        let json: serde_json::Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!(json["workload"], "pairs");
        assert_eq!(json["parameters"]["pairs"], 2_000);
        assert_eq!(json["figures"]["stored_per_second"], 123_456.7);
        assert_eq!(json["latencies"]["send_to_ack"]["p99_9_ms"], 0.031);
        assert_eq!(json["latencies"]["send_to_ack"]["count"], 1);
        assert_eq!(json["remarks"][0], "the machine was busy");
    }
}
