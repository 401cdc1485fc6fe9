//! The report of a migration.

use std::time::Duration;

use bluetick_core::Timestamp;
use bluetick_store_cloud::import::Comparison;

use crate::failure::Failure;
use crate::figures::{count, counted, time, utc};

#[derive(Clone, Debug, Default)]
pub struct MigrationReport {
    /// When an earlier run finished the copy.
    pub was_finished_at: Option<Timestamp>,
    pub people: u64,
    pub conversations: u64,
    pub messages: u64,
    /// Messages whose content came from the archive.
    pub archived: u64,
    pub lost: u64,
    pub erased: u64,
    /// Rows that this run wrote.
    pub written: u64,
    pub were_there: u64,
    /// `None` if the comparison was skipped.
    pub comparison: Option<Comparison>,
    pub notes: Vec<String>,
    pub took: Duration,
}

impl MigrationReport {
    pub fn text(&self) -> String {
        let people =
            if self.people == 1 { "1 person".to_owned() } else { format!("{} people", count(self.people)) };
        let all = format!(
            "{people}, {}, {}",
            counted(self.conversations, "conversation"),
            counted(self.messages, "message")
        );
        let mut lines = vec![match self.was_finished_at {
            Some(at) => format!("Copied     {all}; finished on {}", utc(at)),
            None => format!("Copied     {all}"),
        }];
        if self.was_finished_at.is_none() {
            let there = counted(self.were_there, "row");
            lines.push(format!(
                "This run   {} written, {there} already present",
                counted(self.written, "row")
            ));
        }
        if self.archived > 0 {
            lines.push(format!("Archive    {} read from the archive", counted(self.archived, "message")));
        }
        if self.erased > 0 {
            lines.push(format!("Erased     {}, which stay erased", counted(self.erased, "message")));
        }
        if self.lost > 0 {
            let lost = counted(self.lost, "message");
            lines.push(format!(
                "Lost       {lost} could not be read from the archive; the tables mark them as lost"
            ));
        }
        lines.push(match &self.comparison {
            None => "Compared   nothing (--no-verify)".to_owned(),
            Some(found) if found.differences == 0 => {
                format!("Compared   {}, all correct", counted(found.rows, "row"))
            }
            Some(found) => {
                let differences = counted(found.differences, "difference");
                format!("Compared   {}: {differences}", counted(found.rows, "row"))
            }
        });
        if let Some(found) = &self.comparison {
            lines.extend(found.sentences.iter().map(|sentence| format!("           {sentence}")));
        }
        lines.extend(self.notes.iter().map(|note| format!("Note       {note}")));
        lines.push(format!("Took       {}", time(self.took)));
        lines.join("\n") + "\n"
    }

    pub fn judge(&self) -> Result<(), Failure> {
        match &self.comparison {
            Some(found) if found.differences > 0 => {
                let what = counted(found.differences, "difference");
                let remedy = match self.was_finished_at {
                    Some(_) => "a server or another program has changed the tables since",
                    None => "--from-start writes missing rows and stops at rows of another source",
                };
                Err(Failure::failed(format!("the tables differ from the source: {what}; {remedy}")))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_report_shows_copied_counts_and_comparison_result() {
        let compared = Comparison { rows: 1_234, ..Comparison::default() };
        let report = MigrationReport {
            people: 1,
            conversations: 2,
            messages: 1_000,
            lost: 3,
            written: 1_234,
            comparison: Some(compared),
            took: Duration::from_secs(12),
            ..MigrationReport::default()
        };
        assert_eq!(
            report.text(),
            "Copied     1 person, 2 conversations, 1,000 messages\n\
             This run   1,234 rows written, 0 rows already present\n\
             Lost       3 messages could not be read from the archive; the tables mark them as lost\n\
             Compared   1,234 rows, all correct\n\
             Took       12 s\n"
        );
        assert!(report.judge().is_ok());
    }

    #[test]
    fn migration_differences_are_listed_and_cause_failure() {
        let sentences = vec!["message 3 of conversation x is missing".to_owned()];
        let found = Comparison { rows: 5, differences: 1, sentences };
        let report = MigrationReport { comparison: Some(found), ..MigrationReport::default() };
        assert!(report.text().contains("Compared   5 rows: 1 difference\n           message 3 of"));
        assert!(report.judge().is_err());
    }
}
