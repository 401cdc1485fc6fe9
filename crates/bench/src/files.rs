//! Open files: both sides of a run need one for each connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::BenchError;
use crate::under_test::client_failed;

/// Files besides those of the connections.
const OTHERS: u64 = 1_024;

/// Allows files for so many connections. The server is started later and inherits what is allowed here.
pub fn allow_files(connections: u64) -> Result<(), BenchError> {
    let wanted = connections + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    // Above the maximum only the privileged may go, which is worth a try.
    let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    let raised = Rlimit { current: Some(wanted), maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        client_failed(format!("{wanted} open files are not allowed here; see `ulimit -Hn` and fs.nr_open"))
    })
}
