//! The data directory to copy.

use std::sync::Arc;

use bluetick_archive::{ArchiveEngine, ObjectArchive};
use bluetick_store_embedded::export::Inventory;
use bluetick_store_embedded::{EmbeddedStore, StoreParts};

use crate::failure::Failure;
use crate::figures::counted;
use crate::settings::Settings;
use crate::store::CannotOpen;

/// Opens the store and locks its directory, so that no server can use it. Fails if one does.
pub async fn open(settings: &Settings) -> Result<Arc<EmbeddedStore>, Failure> {
    let archive = settings.archive.clone();
    let object_archive =
        ObjectArchive::open(&archive, &settings.store.data_dir).map_err(CannotOpen::from)?.map(Arc::new);
    let parts = StoreParts { object_archive, archive, ..StoreParts::new(settings.store.embedded.clone()) };
    let opening = tokio::task::spawn_blocking(move || EmbeddedStore::open(parts));
    let opened = opening.await.map_err(Failure::failed)?;
    opened.map(Arc::new).map_err(|error| match CannotOpen::from(error) {
        CannotOpen::InUse { reason, .. } => Failure::failed(format!("{reason}; stop it first")),
        other => other.into(),
    })
}

pub fn must_be_readable(inventory: &Inventory, settings: &Settings) -> Result<(), Failure> {
    if inventory.unfinished_erasures > 0 {
        return Err(Failure::failed(
            "the data directory has an unfinished erasure; `bluetick archive run` on it finishes the erasure",
        ));
    }
    if inventory.archived > 0 && settings.archive.engine == ArchiveEngine::Off {
        let messages = counted(inventory.archived, "message");
        return Err(Failure::usage(format!(
            "{messages} of the data directory are in an archive, and the settings name none; pass the settings it was \
             served with (--from-config)"
        )));
    }
    Ok(())
}
