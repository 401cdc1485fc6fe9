//! Several servers on one store, each a child process with a directory of its own. Which store that is, and what is
//! wrong with it, belongs to the test.

use std::path::Path;
use std::process::{Command, ExitStatus};

use tempfile::TempDir;
use tokio::sync::watch;

use crate::client::Situation;
use crate::http::get_text;
use crate::process::{Launcher, ServerProcess};

pub struct Fleet {
    nodes: Vec<Node>,
    announce: watch::Sender<Situation>,
    /// Goes with the fleet.
    _directories: Vec<TempDir>,
}

struct Node {
    launcher: Launcher,
    process: Option<ServerProcess>,
}

const LAST_WORDS: usize = 40;

impl Fleet {
    /// As many nodes as launchers are made; each is told its number and its directory.
    pub async fn start(count: usize, launcher: impl Fn(usize, &Path) -> Launcher) -> Fleet {
        let directories: Vec<TempDir> = (0..count).map(|_| tempfile::tempdir().unwrap()).collect();
        let nodes = directories
            .iter()
            .enumerate()
            .map(|(number, directory)| Node { launcher: launcher(number, directory.path()), process: None });
        let (announce, _) = watch::channel(Situation::default());
        let mut fleet = Fleet { nodes: nodes.collect(), announce, _directories: directories };
        for number in 0..count {
            fleet.start_again(number).await;
        }
        fleet
    }

    /// Where the nodes are, as a load balancer knows it: those that died are still among them for a moment.
    pub fn situation(&self) -> watch::Receiver<Situation> {
        self.announce.subscribe()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Of a node that runs.
    pub fn address(&self, number: usize) -> &str {
        &self.process(number).address
    }

    /// Of all that run.
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

    /// `kill -9`. Whoever balances the load hears of it afterwards.
    pub async fn kill(&mut self, number: usize) {
        self.take(number).kill().await;
        self.tell();
    }

    /// SIGTERM, and wait for its end. Whoever balances the load sends nobody there any more.
    pub async fn drain(&mut self, number: usize) -> ExitStatus {
        let mut process = self.take(number);
        self.tell();
        signal(process.id(), "TERM");
        process.wait().await
    }

    /// A new life in the same directory, at another address.
    pub async fn start_again(&mut self, number: usize) {
        let process = self.nodes[number].launcher.start().await;
        self.nodes[number].process = Some(process);
        self.tell();
    }

    /// The process is stopped, or goes on.
    pub fn pause(&self, number: usize) {
        signal(self.process(number).id(), "STOP");
    }

    pub fn resume(&self, number: usize) {
        signal(self.process(number).id(), "CONT");
    }

    /// Everybody shall end.
    pub fn stop_the_crowd(&self) {
        self.announce.send_modify(|now| now.stop = true);
    }

    /// One line of a node's metrics, such as `bluetick_nodes`; 0 where there is none.
    pub async fn metric(&self, number: usize, name: &str) -> u64 {
        let text = get_text(self.address(number), "/metrics").await.unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// The same of all nodes that run, together.
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

    /// What a node has logged in all its lives.
    pub fn log(&self, number: usize) -> String {
        self.nodes[number].launcher.log()
    }

    /// Lines that should not be in any log, whatever happened to the servers around.
    pub fn complaints(&self) -> Vec<String> {
        let is_one = |line: &&str| line.contains("panicked") || line.contains(r#""level":"ERROR""#);
        let of =
            |node: &Node| node.launcher.log().lines().filter(is_one).map(str::to_owned).collect::<Vec<_>>();
        self.nodes.iter().flat_map(of).collect()
    }
}

/// After a failure the last words of all nodes are worth reading.
impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (number, node) in self.nodes.iter().enumerate() {
                let log = node.launcher.log();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(LAST_WORDS)..];
                eprintln!("node {number} logged at last:\n{}", last.join("\n"));
            }
        }
    }
}

/// By the shell's own command, since this crate has no unsafe code to call the system with.
fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status().unwrap();
    assert!(status.success(), "the node is gone");
}
