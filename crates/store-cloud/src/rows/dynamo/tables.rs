//! Making the tables, and looking whether they are as they must be.

use std::time::Duration;

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::operation::update_continuous_backups::UpdateContinuousBackupsError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, PointInTimeRecoverySpecification,
    PointInTimeRecoveryStatus, ScalarAttributeType, TableDescription, TableStatus,
};
use futures_util::future::{join_all, try_join_all};
use tokio::time::Instant;

use super::super::{RowsError, SortKind, Table};
use super::connection::Connection;
use super::counters::Operation;
use super::patience::{Failure, Patience};

/// What a look at the tables found, a sentence each that names the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Nothing starts before these are mended.
    pub wrong: Vec<String>,
    /// It works, and should not stay so.
    pub unprotected: Vec<String>,
    /// What this engine does not know.
    pub notes: Vec<String>,
}

/// How long a new table may take until it can be used. Amazon's take some seconds.
const READY_DEADLINE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Whether a safety is on, where the engine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Safety {
    On,
    Off,
    Unknown,
}

/// Makes what is missing and leaves what is right; says what it did, a sentence for each table. Existing tables with
/// other keys are an error: nothing is deleted here.
pub async fn create(connection: &Connection) -> Result<Vec<String>, RowsError> {
    try_join_all(Table::ALL.map(|table| create_one(connection, table))).await
}

async fn create_one(connection: &Connection, table: Table) -> Result<String, RowsError> {
    let name = connection.table_name(table);
    let mut done = Vec::new();
    if describe(connection, table).await?.is_none() {
        make(connection, table).await?;
        done.push("made");
    }
    let description = ready(connection, table).await?;
    if let Some(wrong) = wrong(&name, table, &description) {
        return Err(RowsError::Refused(wrong));
    }
    match deletion_protection(&description) {
        Safety::Off => done.push(match protect(connection, table).await? {
            Safety::On => "deletion protection switched on",
            _ => "this engine has no deletion protection",
        }),
        Safety::Unknown => done.push("this engine has no deletion protection"),
        Safety::On => {}
    }
    match recovery(connection, table).await? {
        Safety::Off => done.push(match recover(connection, table).await? {
            Safety::On => "point-in-time recovery switched on",
            _ => "this engine has no point-in-time recovery",
        }),
        Safety::Unknown => done.push("this engine has no point-in-time recovery"),
        Safety::On => {}
    }
    let done = if done.is_empty() { "was right".to_owned() } else { done.join("; ") };
    Ok(format!("table {name}: {done}"))
}

/// Looks and changes nothing.
pub async fn check(connection: &Connection) -> Result<Findings, RowsError> {
    let mut findings = Findings::default();
    for found in join_all(Table::ALL.map(|table| check_one(connection, table))).await {
        let found = found?;
        findings.wrong.extend(found.wrong);
        findings.unprotected.extend(found.unprotected);
        findings.notes.extend(found.notes);
    }
    Ok(findings)
}

async fn check_one(connection: &Connection, table: Table) -> Result<Findings, RowsError> {
    let name = connection.table_name(table);
    let mut findings = Findings::default();
    let Some(description) = describe(connection, table).await? else {
        findings.wrong.push(missing(&name));
        return Ok(findings);
    };
    findings.wrong.extend(wrong(&name, table, &description));
    let safeties = [
        ("deletion protection", deletion_protection(&description)),
        ("point-in-time recovery", recovery(connection, table).await?),
    ];
    for (what, safety) in safeties {
        match safety {
            Safety::On => {}
            Safety::Off => findings.unprotected.push(format!("table {name}: {what} is off")),
            Safety::Unknown => findings.notes.push(format!("table {name}: this engine has no {what}")),
        }
    }
    Ok(findings)
}

/// The look before a start: keys and types only, one request for each table.
pub(super) async fn must_be_right(connection: &Connection) -> Result<(), RowsError> {
    let look = async |table: Table| {
        let name = connection.table_name(table);
        Ok(match describe(connection, table).await? {
            Some(description) => wrong(&name, table, &description),
            None => Some(missing(&name)),
        })
    };
    let found = try_join_all(Table::ALL.map(look)).await?;
    let wrong: Vec<_> = found.into_iter().flatten().collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(RowsError::Refused(format!("{}; `bluetick tables create` makes the tables", wrong.join("; "))))
}

fn missing(name: &str) -> String {
    format!("table {name} is missing")
}

/// What keeps this table from being used.
fn wrong(name: &str, table: Table, description: &TableDescription) -> Option<String> {
    let usable = [TableStatus::Active, TableStatus::Updating];
    // Not every engine says it.
    if let Some(status) = description.table_status().filter(|status| !usable.contains(status)) {
        return Some(format!("table {name} is {}, not ACTIVE", status.as_str()));
    }
    let must: Vec<_> =
        keys(table).into_iter().map(|(key, kind, _)| format!("{key} ({})", kind.as_str())).collect();
    let mut schema = description.key_schema().to_vec();
    schema.sort_by_key(|key| *key.key_type() != KeyType::Hash);
    let kind = |key: &str| {
        let definitions = description.attribute_definitions();
        let definition = definitions.iter().find(|definition| definition.attribute_name() == key);
        definition.map_or("unknown", |definition| definition.attribute_type().as_str())
    };
    let is = schema.iter().map(KeySchemaElement::attribute_name).map(|key| format!("{key} ({})", kind(key)));
    let is: Vec<_> = is.collect();
    (is != must).then(|| format!("table {name} has the key {}, not {}", is.join(" and "), must.join(" and ")))
}

fn keys(table: Table) -> Vec<(&'static str, ScalarAttributeType, KeyType)> {
    let partition = (table.partition_key(), ScalarAttributeType::S, KeyType::Hash);
    let sort = table.sort_key().map(|(name, kind)| match kind {
        SortKind::Text => (name, ScalarAttributeType::S, KeyType::Range),
        SortKind::Number => (name, ScalarAttributeType::N, KeyType::Range),
    });
    std::iter::once(partition).chain(sort).collect()
}

fn patience(connection: &Connection, table: Table) -> Patience<'_> {
    Patience::new(connection, Operation::Tables, connection.table_words(table))
}

/// `None` when there is no such table.
async fn describe(connection: &Connection, table: Table) -> Result<Option<TableDescription>, RowsError> {
    let request = connection.client().describe_table().table_name(connection.table_name(table));
    let mut patience = patience(connection, table);
    match patience.ask(|| request.clone().send()).await {
        Ok(answer) => Ok(answer.table),
        Err(Failure::Said(DescribeTableError::ResourceNotFoundException(_))) => Ok(None),
        Err(failure) => Err(patience.error(failure)),
    }
}

async fn make(connection: &Connection, table: Table) -> Result<(), RowsError> {
    let mut request = connection.client().create_table().table_name(connection.table_name(table));
    request = request.billing_mode(BillingMode::PayPerRequest);
    for (name, kind, role) in keys(table) {
        let definition = AttributeDefinition::builder().attribute_name(name).attribute_type(kind);
        let key = KeySchemaElement::builder().attribute_name(name).key_type(role);
        request = request
            .attribute_definitions(definition.build().expect("name and type are given"))
            .key_schema(key.build().expect("name and role are given"));
    }
    let protected = request.clone().deletion_protection_enabled(true);
    let mut patience = patience(connection, table);
    let answer = match patience.ask(|| protected.clone().send()).await {
        // `protect` finds out whether that was the reason.
        Err(Failure::Said(error)) if is_unknown(&error) => patience.ask(|| request.clone().send()).await,
        answer => answer,
    };
    match answer {
        // Somebody else makes it, or we did and did not hear of it.
        Ok(_) | Err(Failure::Said(CreateTableError::ResourceInUseException(_))) => Ok(()),
        Err(failure) => Err(patience.error(failure)),
    }
}

/// Waits until a table that is being made can be used.
async fn ready(connection: &Connection, table: Table) -> Result<TableDescription, RowsError> {
    let deadline = Instant::now() + READY_DEADLINE;
    loop {
        if let Some(description) = describe(connection, table).await?
            && description.table_status() != Some(&TableStatus::Creating)
        {
            return Ok(description);
        }
        if Instant::now() > deadline {
            let seconds = READY_DEADLINE.as_secs();
            let table = connection.table_words(table);
            return Err(RowsError::NoAnswer(format!("{table} is not ready after {seconds} s")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn deletion_protection(description: &TableDescription) -> Safety {
    match description.deletion_protection_enabled() {
        Some(true) => Safety::On,
        Some(false) => Safety::Off,
        None => Safety::Unknown,
    }
}

async fn protect(connection: &Connection, table: Table) -> Result<Safety, RowsError> {
    let request = connection.client().update_table().table_name(connection.table_name(table));
    let request = request.deletion_protection_enabled(true);
    let mut patience = patience(connection, table);
    let answer = patience.ask(|| request.clone().send()).await;
    safety_of(&patience, answer.map(|_| Safety::On))
}

async fn recovery(connection: &Connection, table: Table) -> Result<Safety, RowsError> {
    let request = connection.client().describe_continuous_backups().table_name(connection.table_name(table));
    let mut patience = patience(connection, table);
    let answer = patience.ask(|| request.clone().send()).await;
    let safety = answer.map(|answer| {
        let backups = answer.continuous_backups_description;
        let recovery = backups.and_then(|backups| backups.point_in_time_recovery_description);
        match recovery.and_then(|recovery| recovery.point_in_time_recovery_status) {
            Some(PointInTimeRecoveryStatus::Enabled) => Safety::On,
            _ => Safety::Off,
        }
    });
    safety_of(&patience, safety)
}

async fn recover(connection: &Connection, table: Table) -> Result<Safety, RowsError> {
    let on = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true);
    let request = connection.client().update_continuous_backups().table_name(connection.table_name(table));
    let request = request.point_in_time_recovery_specification(on.build().expect("it says on or off"));
    let deadline = Instant::now() + READY_DEADLINE;
    loop {
        let mut patience = patience(connection, table);
        match patience.ask(|| request.clone().send()).await {
            // Not yet, for a new table.
            Err(Failure::Said(UpdateContinuousBackupsError::ContinuousBackupsUnavailableException(_)))
                if Instant::now() < deadline =>
            {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            answer => return safety_of(&patience, answer.map(|_| Safety::On)),
        }
    }
}

fn safety_of<E: ProvideErrorMetadata>(
    patience: &Patience<'_>,
    answer: Result<Safety, Failure<E>>,
) -> Result<Safety, RowsError> {
    match answer {
        Ok(safety) => Ok(safety),
        Err(Failure::Said(error)) if is_unknown(&error) => Ok(Safety::Unknown),
        Err(failure) => Err(patience.error(failure)),
    }
}

/// An engine that does not know a safety refuses to be asked about it, each in its own words.
fn is_unknown(error: &impl ProvideErrorMetadata) -> bool {
    const UNKNOWN: [&str; 3] =
        ["UnknownOperationException", "ValidationException", "UnsupportedOperationException"];
    error.code().is_some_and(|code| UNKNOWN.contains(&code))
}
