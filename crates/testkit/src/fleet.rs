//! Several servers on one store, each a child process with its own directory. The test chooses the
//! store and its faults.

use std::path::Path;
use std::process::{Command, ExitStatus};

use tempfile::TempDir;
use tokio::sync::watch;

use crate::client::Situation;
use crate::http::get_text;
use crate::process::{Launcher, ServerProcess};

pub struct FleetProcesses {
    nodes: Vec<NodeProcess>,
    announce: watch::Sender<Situation>,
    /// Deleted with the fleet.
    _directories: Vec<TempDir>,
}

struct NodeProcess {
    launcher: Launcher,
    process: Option<ServerProcess>,
}

/// Number of log lines per node that a failed test prints. With too few, the cause is cut off.
const LAST_WORDS: usize = 40;

impl FleetProcesses {
    /// Starts `count` nodes. `launcher` gets the number and the directory of each node.
    pub async fn start(count: usize, launcher: impl Fn(usize, &Path) -> Launcher) -> FleetProcesses {
        let directories: Vec<TempDir> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let nodes = directories.iter().enumerate().map(|(number, directory)| NodeProcess {
            launcher: launcher(number, directory.path()),
            process: None,
        });
        let (announce, _) = watch::channel(Situation::default());
        let mut fleet = FleetProcesses { nodes: nodes.collect(), announce, _directories: directories };
        for number in 0..count {
            fleet.start_again(number).await;
        }
        fleet
    }

    /// Returns the addresses of the nodes, as a load balancer knows them: a killed node stays
    /// listed for a short time.
    pub fn situation(&self) -> watch::Receiver<Situation> {
        self.announce.subscribe()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the address of a node. Panics if it is not running.
    pub fn address(&self, number: usize) -> &str {
        &self.process(number).address
    }

    /// Returns the addresses of all running nodes.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().filter_map(|node| Some(node.process.as_ref()?.address.clone())).collect()
    }

    fn process(&self, number: usize) -> &ServerProcess {
        self.nodes[number].process.as_ref().expect("the node runs")
    }

    fn take(&mut self, number: usize) -> ServerProcess {
        self.nodes[number].process.take().expect("the node runs")
    }

    fn tell(&self) {
        let addresses = self.addresses();
        self.announce.send_modify(|now| now.addresses = addresses);
    }

    /// Kills a node with `kill -9`. The load balancer learns of it afterwards.
    pub async fn kill(&mut self, number: usize) {
        self.take(number).kill().await;
        self.tell();
    }

    /// Removes a node from the load balancer, sends it SIGTERM and waits until it has ended.
    pub async fn drain(&mut self, number: usize) -> ExitStatus {
        let mut process = self.take(number);
        self.tell();
        signal(process.id(), "TERM");
        process.wait().await
    }

    /// Starts a node again in the same directory, at a new address.
    pub async fn start_again(&mut self, number: usize) {
        let process = self.nodes[number].launcher.start().await;
        self.nodes[number].process = Some(process);
        self.tell();
    }

    /// Stops the process with SIGSTOP; [`FleetProcesses::resume`] continues it.
    pub fn pause(&self, number: usize) {
        signal(self.process(number).id(), "STOP");
    }

    pub fn resume(&self, number: usize) {
        signal(self.process(number).id(), "CONT");
    }

    /// Tells all clients to stop.
    pub fn stop_the_crowd(&self) {
        self.announce.send_modify(|now| now.stop = true);
    }

    /// Returns one metric of a node, such as `bluetick_nodes`; 0 if it is missing.
    pub async fn metric(&self, number: usize, name: &str) -> u64 {
        let text = get_text(self.address(number), "/metrics").await.unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Returns the sum of a metric over all running nodes.
    pub async fn metrics(&self, name: &str) -> u64 {
        let mut sum = 0;
        for number in (0..self.len()).filter(|number| self.nodes[*number].process.is_some()) {
            sum += self.metric(number, name).await;
        }
        sum
    }

    pub fn directory(&self, number: usize) -> &Path {
        &self.nodes[number].launcher.data_dir
    }

    /// Returns the log of a node over all its starts.
    pub fn log(&self, number: usize) -> String {
        self.nodes[number].launcher.log()
    }

    /// Returns log lines that must never occur, whatever faults were injected: panics and errors.
    pub fn complaints(&self) -> Vec<String> {
        let is_one = |line: &&str| line.contains("panicked") || line.contains(r#""level":"ERROR""#);
        let of = |node: &NodeProcess| {
            node.launcher.log().lines().filter(is_one).map(str::to_owned).collect::<Vec<_>>()
        };
        self.nodes.iter().flat_map(of).collect()
    }
}

/// Prints the last log lines of all nodes if the test failed.
impl Drop for FleetProcesses {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (number, node) in self.nodes.iter().enumerate() {
                let log = node.launcher.log();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(LAST_WORDS)..];
                eprintln!("last log lines of node {number}:\n{}", last.join("\n"));
            }
        }
    }
}

/// Uses the `kill` program, because this crate has no unsafe code for system calls. Panics if the
/// process has ended.
fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap();
    assert!(status.success(), "the node process ended");
}
