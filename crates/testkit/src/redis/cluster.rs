//! A Redis cluster of six servers: three primaries with one replica each.

use super::{RedisOptions, RedisServer, free_port, wait_until};

pub struct RedisCluster {
    servers: Vec<RedisServer>,
}

/// Number of primaries, each with one replica. A Redis Cluster needs at least 3 to elect a new
/// primary.
const PRIMARIES: usize = 3;
/// Number of hash slots of a Redis cluster, fixed by Redis. With fewer, some keys have no server.
const SLOTS: usize = 16384;

impl RedisCluster {
    pub fn start() -> RedisCluster {
        RedisCluster::start_with(RedisOptions::default())
    }

    pub fn start_with(options: RedisOptions) -> RedisCluster {
        let servers: Vec<_> = (0..2 * PRIMARIES).map(|_| member(options.clone())).collect();
        for (index, server) in servers.iter().enumerate() {
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()]);
            if index < PRIMARIES {
                let (first, last) = (SLOTS * index / PRIMARIES, SLOTS * (index + 1) / PRIMARIES - 1);
                server.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
            }
            let bus = server.command(&["CONFIG", "GET", "cluster-port"]).many()[1].text();
            for other in &servers {
                other.command(&["CLUSTER", "MEET", "127.0.0.1", &server.port().to_string(), &bus]);
            }
        }
        let server_count = servers.len().to_string();
        wait_until("every server has discovered all others", || {
            let known = |server: &RedisServer| cluster_info(server, "cluster_known_nodes");
            servers.iter().all(|server| known(server) == server_count && !has_handshakes(server))
        });
        for (index, replica) in servers.iter().enumerate().skip(PRIMARIES) {
            let primary = servers[index - PRIMARIES].command(&["CLUSTER", "MYID"]).text();
            wait_until("the replica can replicate its primary", || {
                replica.command(&["CLUSTER", "REPLICATE", &primary]).text() == "OK"
            });
        }
        let cluster = RedisCluster { servers };
        cluster.wait_until_whole();
        cluster
    }

    /// Waits until all slots are served and every running replica is in sync with its primary.
    pub fn wait_until_whole(&self) {
        wait_until("the cluster serves all slots and its replicas are in sync", || {
            self.running().all(|server| {
                let is_replica = server.info("replication", "role").as_deref() == Some("slave");
                let link = server.info("replication", "master_link_status");
                cluster_info(server, "cluster_state") == "ok"
                    && (!is_replica || link.as_deref() == Some("up"))
            })
        });
        // A replica can be elected only when the others know its primary.
        wait_until("every server reports the primary of each replica", || {
            let replicas = self.running().count().saturating_sub(PRIMARIES);
            self.running().all(|server| {
                let nodes = server.command(&["CLUSTER", "NODES"]).text();
                nodes.lines().filter(|line| line.contains("slave ") && !line.contains("fail")).count()
                    >= replicas
            })
        });
    }

    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::url).collect()
    }

    /// Returns the server that holds this key, according to a running server.
    pub fn primary_of(&self, key: &str) -> usize {
        let anybody = self.running().next().expect("at least one server of the cluster runs");
        let slot = anybody.command(&["CLUSTER", "KEYSLOT", key]).number();
        let ranges = anybody.command(&["CLUSTER", "SLOTS"]);
        let range = ranges.many().iter().find(|range| {
            let range = range.many();
            (range[0].number()..=range[1].number()).contains(&slot)
        });
        let port = range.expect("every slot is served").many()[2].many()[1].number();
        self.servers
            .iter()
            .position(|server| i64::from(server.port()) == port)
            .expect("the primary is one of these servers")
    }

    /// Kills the server that holds this key with `kill -9` and returns its index. Its replica takes
    /// over within seconds.
    pub fn kill_primary_of(&mut self, key: &str) -> usize {
        let index = self.primary_of(key);
        self.servers[index].stop();
        index
    }

    pub fn server(&self, index: usize) -> &RedisServer {
        &self.servers[index]
    }

    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// Runs one command, such as FLUSHALL, on every running primary.
    pub fn on_primaries(&self, words: &[&str]) {
        for server in self.running() {
            if server.info("replication", "role").as_deref() == Some("master") {
                server.command(words);
            }
        }
    }

    fn running(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().filter(|server| server.is_running())
    }
}

fn member(options: RedisOptions) -> RedisServer {
    let has_timeout = options.settings.iter().any(|(name, _)| name == "cluster-node-timeout");
    let options = if has_timeout { options } else { options.with("cluster-node-timeout", "2000") };
    let options = options
        .with("cluster-enabled", "yes")
        .with("cluster-port", &free_port().to_string())
        .with("repl-diskless-sync-delay", "0");
    RedisServer::start_with(options)
}

fn cluster_info(server: &RedisServer, name: &str) -> String {
    let info = server.command(&["CLUSTER", "INFO"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

fn has_handshakes(server: &RedisServer) -> bool {
    server.command(&["CLUSTER", "NODES"]).text().contains("handshake")
}
