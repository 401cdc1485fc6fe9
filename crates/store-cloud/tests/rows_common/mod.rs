//! What the tests of rows share: tables on the one server of this process.

use bluetick_store_cloud::rows::dynamo::{Connection, DynamoRows, DynamoSettings, tables};
use bluetick_testkit::dynamo::DynamoServer;
use tokio::sync::OnceCell;

static TABLES: OnceCell<()> = OnceCell::const_new();

pub fn settings(endpoint: String) -> DynamoSettings {
    DynamoSettings {
        endpoint: Some(endpoint),
        region: Some("us-east-1".to_owned()),
        // A busy machine is no fault.
        attempt_timeout_ms: 5000,
        deadline_ms: 30_000,
        ..DynamoSettings::default()
    }
}

pub async fn connect(server: &DynamoServer, settings: &DynamoSettings) -> Connection {
    let [(_, access_key_id), (_, secret_access_key)] = server.credentials();
    Connection::with_keys(settings, access_key_id, secret_access_key).await.unwrap()
}

/// The tables of the shared server, through whatever is between.
pub async fn rows_through(settings: &DynamoSettings) -> DynamoRows {
    let server = DynamoServer::shared().await;
    let make = async || {
        tables::create(&connect(server, &self::settings(server.endpoint())).await).await.unwrap();
    };
    TABLES.get_or_init(make).await;
    DynamoRows::open_on(connect(server, settings).await).await.unwrap()
}
