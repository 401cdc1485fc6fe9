//! The line to one server: one connection that all calls share, and a breaker.
//!
//! A call that times out or meets a broken connection opens the breaker: from then on every call is answered with
//! [`Away`] at once, while a keeper connects anew. A server that has stopped costs nobody more than one timeout.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Pipeline, RedisError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::call::{self, ALL};
use super::endpoint::Endpoint;
use crate::hints::Away;

/// Which server a line leads to.
pub(super) enum Towards {
    Server(Endpoint),
    /// Whatever the sentinels call the primary at the moment; it is entered as the last endpoint says.
    Primary {
        sentinels: Vec<Endpoint>,
        master: String,
        like: Endpoint,
    },
    /// A server of a cluster, once it serves.
    Member(Endpoint),
}

pub(super) struct Line {
    shared: Arc<Shared>,
    keeper: JoinHandle<()>,
}

struct Shared {
    towards: Towards,
    state: Mutex<State>,
    /// Somebody has met a broken connection.
    broken: Notify,
    is_up: watch::Sender<bool>,
    comebacks: watch::Sender<u64>,
}

enum State {
    Up { connection: MultiplexedConnection, endpoint: Box<Endpoint>, number: u64 },
    Down { why: String, number: u64 },
}

const PROBE_EVERY: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// What a server may send back before whoever waits for the answers is slowed down.
const REQUESTS_WAITING: usize = 1024;

impl Line {
    pub(super) fn new(towards: Towards, comebacks: watch::Sender<u64>) -> Line {
        let state = State::Down { why: "not connected yet".to_owned(), number: 0 };
        let shared = Arc::new(Shared {
            towards,
            state: state.into(),
            broken: Notify::new(),
            is_up: watch::Sender::new(false),
            comebacks,
        });
        let keeper = tokio::spawn(keep(shared.clone()));
        Line { shared, keeper }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(*self.shared.lock(), State::Up { .. })
    }

    /// Until the line can be used.
    pub(super) async fn up(&self) {
        let mut is_up = self.shared.is_up.subscribe();
        let _ends_with_the_line = is_up.wait_for(|is_up| *is_up).await.map(drop);
    }

    /// The server that the line leads to now.
    pub(super) fn endpoint(&self) -> Result<Endpoint, Away> {
        match &*self.shared.lock() {
            State::Up { endpoint, .. } => Ok((**endpoint).clone()),
            State::Down { why, .. } => Err(Away(why.clone())),
        }
    }

    /// All answers, refusals of single commands among them.
    pub(super) async fn ask(
        &self,
        commands: &Pipeline,
        count: usize,
        deadline: Instant,
    ) -> Result<Vec<Value>, Away> {
        let (mut connection, number) = match &*self.shared.lock() {
            State::Up { connection, number, .. } => (connection.clone(), *number),
            State::Down { why, .. } => return Err(Away(why.clone())),
        };
        let answers = connection.send_packed_commands(commands, 0, count);
        let why = match tokio::time::timeout_at(deadline, answers).await {
            Ok(Ok(answers)) => match answers.iter().find_map(says_it_is_no_primary) {
                None => return Ok(answers),
                Some(why) => why,
            },
            Ok(Err(error)) => reason(&error),
            Err(_) => "no answer in time".to_owned(),
        };
        self.shared.trip(number, &why);
        Err(Away(why))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no call panics while it holds the lock")
    }

    /// Only the connection that failed is given up, not one that has come since.
    fn trip(&self, failed: u64, reason: &str) {
        let mut state = self.lock();
        if let State::Up { number, endpoint, .. } = &*state
            && *number == failed
        {
            tracing::warn!(server = endpoint.address(), reason, "redis is away");
            *state = State::Down { why: reason.to_owned(), number: failed };
            drop(state);
            self.is_up.send_replace(false);
            self.broken.notify_one();
        }
    }

    fn install(&self, connection: MultiplexedConnection, endpoint: Endpoint) {
        let mut state = self.lock();
        let State::Down { number, .. } = *state else { return };
        tracing::info!(server = endpoint.address(), "redis is there");
        *state = State::Up { connection, endpoint: endpoint.into(), number: number + 1 };
        drop(state);
        self.comebacks.send_modify(|count| *count += 1);
        self.is_up.send_replace(true);
    }

    fn explain(&self, reason: String) {
        if let State::Down { why, .. } = &mut *self.lock() {
            if *why != reason {
                tracing::warn!(reason, "redis cannot be reached");
            }
            *why = reason;
        }
    }
}

async fn keep(shared: Arc<Shared>) {
    loop {
        match connect(&shared.towards).await {
            Ok((connection, endpoint)) => {
                shared.install(connection, endpoint);
                shared.broken.notified().await;
            }
            Err(why) => {
                shared.explain(why);
                tokio::time::sleep(PROBE_EVERY).await;
            }
        }
    }
}

async fn connect(towards: &Towards) -> Result<(MultiplexedConnection, Endpoint), String> {
    let endpoint = match towards {
        Towards::Server(endpoint) | Towards::Member(endpoint) => endpoint.clone(),
        Towards::Primary { sentinels, master, like } => find_primary(sentinels, master, like).await?,
    };
    let mut connection = open(&endpoint).await?;
    let must_be_primary = !matches!(towards, Towards::Server(_));
    let in_cluster = matches!(towards, Towards::Member(_));
    check(&mut connection, must_be_primary, in_cluster).await?;
    Ok((connection, endpoint))
}

/// A connection of one's own, on which the caller minds the time.
pub(super) async fn open(endpoint: &Endpoint) -> Result<MultiplexedConnection, String> {
    let client = Client::open(endpoint.0.clone()).map_err(|error| reason(&error))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_TIMEOUT))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(REQUESTS_WAITING);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    // A server that accepts and then says nothing is as good as none.
    let connection = tokio::time::timeout(CONNECT_TIMEOUT, connection).await;
    let connection = connection.map_err(|_| format!("{} does not answer", endpoint.address()))?;
    connection.map_err(|error| format!("{}: {}", endpoint.address(), reason(&error)))
}

/// Whether what is kept there stays, and whether it may be written; brings the scripts.
async fn check(
    connection: &mut MultiplexedConnection,
    must_be_primary: bool,
    in_cluster: bool,
) -> Result<(), String> {
    let mut questions = ::redis::pipe();
    questions.cmd("INFO").arg("replication").cmd("INFO").arg("memory");
    for script in ALL {
        questions.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    if in_cluster {
        questions.cmd("CLUSTER").arg("INFO");
    }
    let count = 2 + ALL.len() + usize::from(in_cluster);
    let answers = connection.send_packed_commands(&questions, 0, count);
    let answers = tokio::time::timeout(CONNECT_TIMEOUT, answers).await;
    let answers = answers.map_err(|_| "no answer in time".to_owned())?.map_err(|error| reason(&error))?;
    if let Some(Value::ServerError(refusal)) =
        answers.iter().find(|answer| matches!(answer, Value::ServerError(_)))
    {
        let details = refusal.details().unwrap_or_default();
        return Err(format!("it refuses what is needed: {} {details}", refusal.code()));
    }
    let replication = call::text(&answers[0]).unwrap_or_default();
    if line_of(replication, "master_replid").is_none() {
        return Err("INFO replication names no master_replid, by which a failover is noticed".to_owned());
    }
    if must_be_primary && line_of(replication, "role") != Some("master") {
        return Err("it is a replica".to_owned());
    }
    let memory = call::text(&answers[1]).unwrap_or_default();
    let policy = line_of(memory, "maxmemory_policy").unwrap_or("noeviction");
    if policy != "noeviction" && line_of(memory, "maxmemory").is_some_and(|bytes| bytes != "0") {
        return Err(format!(
            "maxmemory-policy is {policy}, which lets single keys vanish and messages be stored twice: it must be noeviction"
        ));
    }
    if in_cluster && !call::text(&answers[count - 1]).unwrap_or_default().contains("cluster_state:ok") {
        return Err("the cluster does not serve".to_owned());
    }
    Ok(())
}

async fn find_primary(sentinels: &[Endpoint], master: &str, like: &Endpoint) -> Result<Endpoint, String> {
    let mut why = String::new();
    for sentinel in sentinels {
        match ask_sentinel(sentinel, master).await {
            Ok((host, port)) => return Ok(like.at(&host, port)),
            Err(reason) => why = reason,
        }
    }
    Err(format!("no sentinel knows the primary: {why}"))
}

async fn ask_sentinel(sentinel: &Endpoint, master: &str) -> Result<(String, u16), String> {
    let mut connection = open(sentinel).await?;
    let mut question = ::redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(master);
    let answer = tokio::time::timeout(CONNECT_TIMEOUT, connection.send_packed_command(&question)).await;
    let answer = answer.map_err(|_| "no answer in time".to_owned())?.map_err(|error| reason(&error))?;
    let unknown = || format!("{} knows no {master}", sentinel.address());
    let [host, port] = call::list(&answer).unwrap_or_default() else { return Err(unknown()) };
    let host = call::text(host).map_err(|_| unknown())?;
    let port = call::number(port).ok().and_then(|port| u16::try_from(port).ok());
    Ok((host.to_owned(), port.ok_or_else(unknown)?))
}

pub(super) fn line_of<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn says_it_is_no_primary(answer: &Value) -> Option<String> {
    let Value::ServerError(refusal) = answer else { return None };
    let gone = matches!(
        refusal.kind()?,
        ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::BusyLoading
    );
    gone.then(|| refusal.code().to_owned())
}

/// Never what a server says about a command, which could repeat its words.
pub(super) fn reason(error: &RedisError) -> String {
    match (error.is_io_error(), error.code()) {
        (true, _) => error.to_string(),
        (false, Some(code)) => format!("it refuses: {code}"),
        (false, None) => format!("{:?}", error.kind()),
    }
}
