//! A server on a machine with switchable faults, and a load of senders.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use bluetick_testkit::checker::{Checked, ClientLog, Histories, Violation, check};
use bluetick_testkit::client::{MessageSender, Situation};
use bluetick_testkit::dice::Dice;
use bluetick_testkit::http::{history, request};
use bluetick_testkit::process::{Launcher, ServerProcess};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The admin key of every server under test.
pub const ADMIN_KEY: &str = "an-admin-key-for-this-test-alone";
/// Deadline for every wait. Longer than any operation takes on a healthy server.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The switches, in the order of the words in shim.c.
#[derive(Clone, Copy)]
pub enum Switch {
    Clock,
    ReadOnly,
    Volatile,
    Lies,
    Held,
    Synced,
}

/// Compiles shim.c with the C compiler, which the build of the server needs too.
fn shim() -> &'static Path {
    /// The compiled shim, built once per test process.
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}.so", std::process::id()));
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .args([&target, &source])
            .arg("-lpthread")
            .status();
        assert!(built.is_ok_and(|status| status.success()), "shim.c needs a C compiler, cc");
        target
    })
}

pub struct World {
    pub data_dir: TempDir,
    pub launcher: Launcher,
    switches: File,
    beside: TempDir,
}

impl World {
    pub fn new() -> World {
        let (data_dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = beside.path().join("switches");
        std::fs::write(&path, [0; 64]).unwrap();
        let switches = File::options().read(true).write(true).open(&path).unwrap();
        let launcher = Launcher::new(env!("CARGO_BIN_EXE_bluetick"), data_dir.path())
            .with("LD_PRELOAD", shim().to_str().unwrap())
            .with("FAULTS_SWITCHES", path.to_str().unwrap())
            .with("FAULTS_DIRECTORY", data_dir.path().to_str().unwrap())
            .with("FAULTS_JOURNAL", beside.path().join("journal").to_str().unwrap())
            .with("BLUETICK_ADMIN__KEY", ADMIN_KEY)
            .with("BLUETICK_LIMITS__SENDS_PER_SECOND", "0")
            .with("BLUETICK_LIMITS__REQUESTS_PER_SECOND", "0")
            .with("BLUETICK_STORE__SEGMENT_BYTES", "4194304")
            .with("BLUETICK_STORE__CHECKPOINT_BYTES", "4194304")
            .with("BLUETICK_STORE__CHECKPOINT_IDLE_SECONDS", "1")
            .with("BLUETICK_STORE__AWAKE_CONVERSATIONS", "2");
        World { data_dir, launcher, switches, beside }
    }

    pub fn set(&self, switch: Switch, to: i64) {
        self.switches.write_all_at(&to.to_le_bytes(), switch as u64 * 8).unwrap();
    }

    pub fn get(&self, switch: Switch) -> i64 {
        let mut word = [0; 8];
        self.switches.read_exact_at(&mut word, switch as u64 * 8).unwrap();
        i64::from_le_bytes(word)
    }

    /// Reverts all unsynced writes, some of them only by half. Call it only while no server runs.
    /// Returns the number of reverted writes.
    pub fn cut_power(&self, dice: &mut Dice) -> usize {
        let path = self.beside.path().join("journal");
        let journal = std::fs::read(&path).unwrap_or_default();
        std::fs::write(&path, []).unwrap();
        let files = files_by_inode(self.data_dir.path());
        let mut entries = entries(&journal);
        for at in (0..entries.len()).rev() {
            if entries[at].kind == SYNC {
                let inode = entries[at].inode;
                let (before, _) = entries.split_at_mut(at);
                before.iter_mut().filter(|entry| entry.inode == inode).for_each(|entry| entry.kind = SYNC);
            }
        }
        let unsynced = |kind| entries.iter().filter(move |entry| entry.kind == kind);
        let mut taken_back = 0;
        for entry in unsynced(REPLACED).collect::<Vec<_>>().into_iter().rev() {
            // A disk may write some of the unsynced data early, and only partially.
            let kept = if dice.one_in(3) { entry.bytes.len() / 2 } else { 0 };
            if let Some(path) = files.get(&entry.inode) {
                let file = File::options().write(true).open(path).unwrap();
                file.write_all_at(&entry.bytes[kept..], entry.at + kept as u64).unwrap();
                taken_back += 1;
            }
        }
        for entry in unsynced(LASTING) {
            if let Some(path) = files.get(&entry.inode) {
                File::options().write(true).open(path).unwrap().write_all_at(entry.bytes, entry.at).unwrap();
            }
        }
        taken_back
    }

    /// Runs `bluetick check` on the directory. Returns its exit code and its output.
    pub fn check(&self) -> (i32, String) {
        check_of(self.data_dir.path())
    }
}

/// Kind of a journal entry: bytes that a write replaced. Must match shim.c.
const REPLACED: u64 = 1;
/// Kind of a journal entry: a write that survives a power failure. Must match shim.c.
const LASTING: u64 = 2;
/// Kind of a journal entry: a sync. Must match shim.c.
const SYNC: u64 = 3;

/// An entry of the journal that shim.c writes.
struct Entry<'a> {
    kind: u64,
    inode: u64,
    at: u64,
    bytes: &'a [u8],
}

/// All complete entries. A kill of the server may have truncated the last one.
fn entries(mut journal: &[u8]) -> Vec<Entry<'_>> {
    let mut all = Vec::new();
    while let Some((head, rest)) = journal.split_at_checked(32) {
        let word = |at: usize| u64::from_le_bytes(head[at * 8..at * 8 + 8].try_into().unwrap());
        let length = if word(0) == SYNC { 0 } else { usize::try_from(word(3)).unwrap() };
        let Some((bytes, rest)) = rest.split_at_checked(length) else { break };
        all.push(Entry { kind: word(0), inode: word(1), at: word(2), bytes });
        journal = rest;
    }
    all
}

fn files_by_inode(directory: &Path) -> BTreeMap<u64, PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let mut files = BTreeMap::new();
    for part in ["log", "tables"] {
        for entry in std::fs::read_dir(directory.join(part)).unwrap().flatten() {
            files.insert(entry.metadata().unwrap().ino(), entry.path());
        }
    }
    files
}

pub fn check_of(directory: &Path) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bluetick"));
    let output = command.arg("check").arg("--data-dir").arg(directory).env_clear().output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

pub async fn token(address: &str, user: &str) -> String {
    let body = json!({"user_id": user, "ttl_s": 86_400});
    let (status, answer) = request(address, "POST", "/v1/tokens", ADMIN_KEY, Some(&body)).await.unwrap();
    assert!(status < 300, "{answer}");
    answer["token"].as_str().unwrap().to_owned()
}

pub async fn open(address: &str, token: &str, body: Value) -> String {
    let (status, answer) = request(address, "POST", "/v1/conversations", token, Some(&body)).await.unwrap();
    assert!(status < 300, "{answer}");
    answer["conversation_id"].as_str().unwrap().to_owned()
}

/// A load of senders, in one group and in pairs.
pub struct Traffic {
    tokens: Vec<String>,
    /// Each conversation with the index of a member who can read all of it.
    conversations: Vec<(usize, String)>,
    announce: watch::Sender<Situation>,
    senders: JoinSet<ClientLog>,
}

impl Traffic {
    pub async fn begin(address: &str, senders: usize) -> Traffic {
        let names: Vec<String> = (0..senders).map(|number| format!("sender{number}")).collect();
        let mut tokens = Vec::new();
        for name in &names {
            tokens.push(token(address, name).await);
        }
        let group = json!({"kind": "group", "title": "everybody", "members": names});
        let group = open(address, &tokens[0], group).await;
        let mut conversations = vec![(0, group.clone())];
        let (announce, situation) = watch::channel(Situation::default());
        let mut talking = JoinSet::new();
        for (number, name) in names.iter().enumerate() {
            let peer = &names[(number + 1) % senders];
            let direct = open(address, &tokens[number], json!({"kind": "direct", "peer": peer})).await;
            conversations.push((number, direct.clone()));
            let sender = MessageSender {
                name: name.clone(),
                token: tokens[number].clone(),
                conversations: vec![group.clone(), direct],
                window: 1 + number * 2,
            };
            talking.spawn(sender.run(situation.clone()));
        }
        let traffic = Traffic { tokens, conversations, announce, senders: talking };
        traffic.goes_to(address);
        traffic
    }

    pub fn goes_to(&self, address: &str) {
        self.announce.send_modify(|now| now.addresses = vec![address.to_owned()]);
    }

    pub fn goes_nowhere(&self) {
        self.announce.send_modify(|now| now.addresses.clear());
    }

    async fn head(&self, address: &str) -> u64 {
        let (_, group) = &self.conversations[0];
        let path = format!("/v1/conversations/{group}/messages?limit=1");
        let answer = request(address, "GET", &path, &self.tokens[0], None).await;
        let Ok((200, page)) = answer else { return 0 };
        page["messages"]
            .as_array()
            .and_then(|page| page.last())
            .and_then(|last| last["seq"].as_u64())
            .unwrap_or(0)
    }

    /// Waits until the group has `messages` more messages.
    pub async fn more(&self, address: &str, messages: u64) {
        let (before, deadline) = (self.head(address).await, Instant::now() + PATIENCE);
        while self.head(address).await < before + messages {
            assert!(Instant::now() < deadline, "the server stores no further message");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops the load and compares the logs of the senders with the server's history.
    pub async fn judged(self, address: &str) -> Result<Checked, Vec<Violation>> {
        self.announce.send_modify(|now| now.stop = true);
        let logs = self.senders.join_all().await;
        let mut histories = Histories::new();
        for (reader, conversation) in self.conversations {
            let messages = history(address, &self.tokens[reader], &conversation).await;
            histories.insert(conversation, messages);
        }
        check(&logs, &histories)
    }
}

/// Shuts the server down gracefully.
pub async fn stopped(mut server: ServerProcess) {
    signal(&server, rustix::process::Signal::TERM);
    assert!(server.wait().await.success());
}

pub fn signal(server: &ServerProcess, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
