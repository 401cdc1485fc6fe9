//! A primary, its replica, and three sentinels that monitor them.

use super::{RedisOptions, RedisServer, wait_until};

pub struct RedisSentinel {
    servers: [RedisServer; 2],
    sentinels: Vec<RedisServer>,
}

/// Name of the primary in the sentinels' configuration. Clients must request the primary by it.
const MASTER: &str = "bluetick";

impl RedisSentinel {
    pub fn start() -> RedisSentinel {
        let options = || RedisOptions::default().with("repl-diskless-sync-delay", "0");
        let primary = RedisServer::start_with(options());
        let follows = format!("127.0.0.1 {}", primary.port());
        let replica = RedisServer::start_with(options().with("replicaof", &follows));
        wait_until("the replica is in sync with its primary", || {
            replica.info("replication", "master_link_status").as_deref() == Some("up")
        });
        let sentinels: Vec<_> = (0..3).map(|_| sentinel(primary.port())).collect();
        wait_until("the sentinels have discovered each other and the replica", || {
            sentinels.iter().all(|sentinel| {
                let known = sentinel.info("sentinel", "master0").unwrap_or_default();
                known.contains("slaves=1") && known.contains("sentinels=3")
            })
        });
        RedisSentinel { servers: [primary, replica], sentinels }
    }

    /// Returns the URLs of the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::url).collect()
    }

    pub fn master_name(&self) -> &'static str {
        MASTER
    }

    /// Returns the primary, according to the first sentinel.
    pub fn primary(&mut self) -> &mut RedisServer {
        let answer = self.sentinels[0].command(&["SENTINEL", "get-master-addr-by-name", MASTER]);
        let port = answer.many()[1].number();
        let primary = self.servers.iter_mut().find(|server| i64::from(server.port()) == port);
        primary.expect("the primary is one of these servers")
    }

    /// Kills the primary with `kill -9`. The replica takes over within seconds.
    pub fn kill_primary(&mut self) {
        self.primary().stop();
    }
}

fn sentinel(primary: u16) -> RedisServer {
    let options = RedisOptions { is_sentinel: true, ..RedisOptions::default() };
    RedisServer::start_with(
        options
            .with("sentinel monitor", &format!("{MASTER} 127.0.0.1 {primary} 2"))
            .with("sentinel down-after-milliseconds", &format!("{MASTER} 500"))
            .with("sentinel failover-timeout", &format!("{MASTER} 2000")),
    )
}
