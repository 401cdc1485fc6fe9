//! The disk use of the tables of a closed store, for benchmarks.

use std::path::Path;

use crate::open::OpenError;
pub use crate::tables::Footprint;
use crate::tables::Tables;

/// Returns the number of rows and the page bytes of each table in the data directory. No process
/// may have the store open.
pub fn footprint(directory: &Path) -> Result<Vec<Footprint>, OpenError> {
    Ok(Tables::open(&directory.join("tables"))?.current()?.footprint()?)
}
