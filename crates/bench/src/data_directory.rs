//! The data directory of a run: empty, or with a store that was filled before the run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluetick_core::UserId;
use bluetick_core::ports::Store;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::chat_texts;
use crate::progress::{ProgressLine, step};
use crate::report::BenchReport;
use crate::seed::{SeededChat, Texts, fill, open, person};

#[derive(Clone, Debug)]
pub struct Ground {
    /// The data directory. It must be empty or new, unless `keep` is set and an earlier run with
    /// the same `stored` filled it.
    pub directory: PathBuf,
    pub keep: bool,
    pub stored: StoredCounts,
}

/// The number of messages and conversations in the store before the run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCounts {
    pub messages: u64,
    pub conversations: u64,
}

/// Name of the file that records the `StoredCounts` content of a kept directory.
const LABEL: &str = "bluetick-bench.json";
/// Number of stored conversations that share one receiver.
const CONVERSATIONS_EACH: usize = 10;

impl Ground {
    /// Returns an empty directory for one run, without stored messages.
    pub fn bare(directory: PathBuf) -> Ground {
        Ground { directory, keep: false, stored: StoredCounts::default() }
    }

    /// Runs `work` on its own runtime. Fills an empty directory first, and removes the directory
    /// afterwards unless `keep` is set.
    pub fn run<T>(
        &self,
        threads: usize,
        work: impl Future<Output = Result<T, BenchError>>,
    ) -> Result<T, BenchError> {
        let in_directory = |error| BenchError::Io { path: self.directory.clone(), error };
        let is_empty = !self.directory.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if !is_empty {
            self.check_label()?;
        }
        std::fs::create_dir_all(&self.directory).map_err(in_directory)?;
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let result = runtime.map_err(in_directory).and_then(|runtime| {
            runtime.block_on(async {
                if is_empty {
                    self.fill().await?;
                }
                work.await
            })
        });
        if !self.keep {
            std::fs::remove_dir_all(&self.directory).map_err(in_directory)?;
        }
        result
    }

    /// Checks that an earlier bench run filled the directory with the content that this run
    /// requires.
    fn check_label(&self) -> Result<(), BenchError> {
        let label = std::fs::read(self.directory.join(LABEL)).ok();
        let found: Option<StoredCounts> = label.and_then(|label| serde_json::from_slice(&label).ok());
        match found {
            Some(found) if self.keep && found == self.stored => Ok(()),
            Some(found) if self.keep => Err(BenchError::OtherStore { path: self.directory.clone(), found }),
            _ => Err(BenchError::NotEmpty(self.directory.clone())),
        }
    }

    async fn fill(&self) -> Result<(), BenchError> {
        let StoredCounts { messages, conversations } = self.stored;
        if messages > 0 {
            step(&format!("storing {messages} messages in {conversations} conversations"));
            let store = open(&self.directory)?;
            let done = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&done);
            let texts: Texts = Arc::new(move |number| {
                counter.fetch_add(1, Ordering::Relaxed);
                chat_texts::text(number)
            });
            let each = (messages / conversations.max(1)) as usize;
            let chats = (0..conversations as usize).map(|number| SeededChat {
                from: person("stored-a", number),
                to: person("stored-b", number / CONVERSATIONS_EACH),
                messages: each,
            });
            let filling = fill(&store, chats, &texts);
            tokio::pin!(filling);
            let (mut progress, started) = (ProgressLine::new(), Instant::now());
            let mut every_second = tokio::time::interval(Duration::from_secs(1));
            loop {
                tokio::select! {
                    filled = &mut filling => break filled?,
                    _ = every_second.tick() => {
                        let done = done.load(Ordering::Relaxed);
                        let seconds = started.elapsed().as_secs();
                        progress.show(&format!("{:>3} %  {done} stored in {seconds} s", done * 100 / messages));
                    }
                }
            }
            store.close().await;
        }
        let label = serde_json::to_vec(&self.stored).expect("two numbers");
        let path = self.directory.join(LABEL);
        std::fs::write(&path, label).map_err(|error| BenchError::Io { path, error })
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns a user id for this run. In a kept directory the id includes the run, so users of
    /// earlier runs are not reused.
    pub fn person(&self, run: Run, name: &str, number: usize) -> UserId {
        if self.keep { person(&format!("{name}-{:x}", run.0), number) } else { person(name, number) }
    }

    /// Adds the stored content to the report's parameters.
    pub fn describe(&self, report: BenchReport) -> BenchReport {
        if self.stored.messages == 0 {
            return report;
        }
        report
            .parameter("stored_messages", self.stored.messages)
            .parameter("stored_conversations", self.stored.conversations)
    }
}

/// An identifier that distinguishes runs in the same directory.
#[derive(Clone, Copy, Debug)]
pub struct Run(u64);

impl Run {
    pub fn number(self) -> u64 {
        self.0
    }

    pub fn new() -> Run {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Run(now.map_or(0, |since| since.as_secs()))
    }
}
