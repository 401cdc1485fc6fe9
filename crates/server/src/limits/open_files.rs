//! The limit on open files of the process, and the number of connections that it allows. Each
//! connection is an open file.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Upper bound on the number of open files that connections leave free for the store, the archive
/// and outgoing calls. With fewer, a busy fleet node runs out of files for its requests to the
/// tables (`store.dynamodb.requests_at_once`).
const MAX_RESERVE: u64 = 512;
/// The reserve of a small limit is the limit divided by this number. With a larger number, idle
/// connections can leave the embedded store without a file for its next log segment.
const RESERVED_PART: u64 = 4;

/// Raises the soft limit on open files of this process to its hard limit.
pub fn raise_file_limit() -> io::Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).map_err(io::Error::from)
}

/// Returns the hard limit on open files of this process, and the number of connections that it
/// allows. Returns `None` if there is no limit.
pub fn file_limit_and_connections() -> Option<(u64, usize)> {
    let limit = getrlimit(Resource::Nofile).maximum?;
    Some((limit, connections_within(limit)))
}

/// Returns the number of connections that the current soft limit on open files allows.
pub(crate) fn connections_of_this_process() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, connections_within)
}

fn connections_within(limit: u64) -> usize {
    let connections = limit - (limit / RESERVED_PART).min(MAX_RESERVE);
    usize::try_from(connections).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_quarter_of_a_small_file_limit_free_and_512_of_a_large_one() {
        for (limit, expected) in [(0, 0), (200, 150), (1_024, 768), (4_096, 3_584), (200_000, 199_488)] {
            assert_eq!(connections_within(limit), expected, "{limit}");
        }
    }
}
