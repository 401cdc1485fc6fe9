//! Checks the tables and Redis of a fleet, without writing to them.

use std::time::Duration;

use bluetick_store_cloud::redis::Redis;
use bluetick_store_cloud::rows::dynamo::DynamoRows;
use tokio::runtime;
use tokio::time::timeout;

use super::PreflightFindings;
use crate::commands::tables::with_endpoint;
use crate::failure::Failure;
use crate::fleet_store::whole_copy;
use crate::settings::Settings;
use crate::store::CannotOpen;

/// Bounds the wait for Redis. After it, the check advises that Redis does not answer.
const REDIS_PATIENCE: Duration = Duration::from_secs(2);

pub fn look(settings: &Settings, findings: &mut PreflightFindings) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            findings.mistakes.push(Failure::failed(format!("cannot start threads: {error}")));
            return;
        }
    };
    runtime.block_on(async {
        if let Err(error) = tables(settings).await {
            findings.mistakes.push(Failure::failed(with_endpoint(&error, &settings.store.dynamodb)));
        }
        match Redis::open(settings.store.redis()).await {
            Err(error) => findings.mistakes.push(CannotOpen::Redis(error).into()),
            // The server starts without Redis.
            Ok(redis) => {
                if timeout(REDIS_PATIENCE, redis.up()).await.is_err() {
                    let advice =
                        "Redis does not answer (store.redis.urls): the server starts without Redis, but each \
                         send costs more table reads";
                    findings.advice.push(advice.to_owned());
                }
            }
        }
    });
}

async fn tables(settings: &Settings) -> Result<(), CannotOpen> {
    let rows = DynamoRows::open(&settings.store.dynamodb).await?;
    whole_copy(&rows).await
}
