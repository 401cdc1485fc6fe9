//! The limit on open files. Both the server and the load generator need one file per connection.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::BenchError;
use crate::under_test::client_failed;

/// Number of open files to allow in addition to one per connection. If it is too small, the server
/// cannot open its tables and log segments.
const OTHERS: u64 = 1_024;

/// Raises the open-file limit of this process for `connections` connections. The server inherits
/// the limit, so call this before starting it.
pub fn allow_files(connections: u64) -> Result<(), BenchError> {
    let wanted = connections + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    // Only a privileged process may raise the hard limit. Try it, because the bench may run as
    // root.
    let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    let raised = Rlimit { current: Some(wanted), maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| {
        client_failed(format!("{wanted} open files are not allowed here; see `ulimit -Hn` and fs.nr_open"))
    })
}
