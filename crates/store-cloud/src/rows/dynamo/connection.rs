//! The way to the engine: keys, region, TLS. Shared by whoever reads rows and whoever makes tables.

use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials, Region};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::super::{RowsError, Table};
use super::DynamoSettings;
use super::counters::Counters;

#[derive(Clone)]
pub struct Connection(Arc<Inner>);

struct Inner {
    client: Client,
    settings: DynamoSettings,
    turns: Semaphore,
    counters: Counters,
}

impl Connection {
    /// With keys from wherever Amazon's tools look for them. The engine is not asked.
    pub async fn new(settings: &DynamoSettings) -> Result<Connection, RowsError> {
        Connection::build(settings, None).await
    }

    /// With keys from elsewhere.
    pub async fn with_keys(
        settings: &DynamoSettings,
        access_key_id: &str,
        secret_access_key: &str,
    ) -> Result<Connection, RowsError> {
        let keys = Credentials::new(access_key_id, secret_access_key, None, None, "given");
        Connection::build(settings, Some(keys)).await
    }

    async fn build(settings: &DynamoSettings, keys: Option<Credentials>) -> Result<Connection, RowsError> {
        if let Some(problem) = settings.problem() {
            return Err(RowsError::Refused(problem));
        }
        let http = aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http.build_https());
        if let Some(region) = &settings.region {
            loader = loader.region(Region::new(region.clone()));
        }
        if let Some(keys) = keys {
            loader = loader.credentials_provider(keys);
        }
        let shared = loader.load().await;
        if shared.region().is_none() {
            return Err(RowsError::Refused(
                "no region for DynamoDB: set store.dynamodb.region, or AWS_REGION in the environment"
                    .to_owned(),
            ));
        }
        if let Some(keys) = shared.credentials_provider() {
            // Asked now for the sentence, which would otherwise come with the first request. The text of the error
            // says where was looked, and no key.
            keys.provide_credentials().await.map_err(|error| {
                RowsError::Refused(format!(
                    "no keys for DynamoDB in the environment, a profile or a role: {error}"
                ))
            })?;
        }
        // Attempts and their time limits are ours (see `patience`), on reads and writes alike.
        let mut config = aws_sdk_dynamodb::config::Builder::from(&shared)
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::disabled())
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(endpoint) = &settings.endpoint {
            config = config.endpoint_url(endpoint);
        }
        Ok(Connection(Arc::new(Inner {
            client: Client::from_conf(config.build()),
            settings: settings.clone(),
            turns: Semaphore::new(settings.requests_at_once),
            counters: Counters::default(),
        })))
    }

    pub(super) fn client(&self) -> &Client {
        &self.0.client
    }

    pub(super) fn settings(&self) -> &DynamoSettings {
        &self.0.settings
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.0.counters
    }

    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.0.turns.acquire().await.expect("nobody closes it")
    }

    /// The name of a table as the engine knows it.
    pub fn table_name(&self, table: Table) -> String {
        format!("{}{}", self.0.settings.table_prefix, table.name())
    }

    /// The table in a sentence.
    pub(super) fn table_words(&self, table: Table) -> String {
        format!("table {}", self.table_name(table))
    }
}
