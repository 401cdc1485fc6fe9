//! A proxy before a DynamoDB server that a test steers: it delays, refuses, breaks and loses what passes through.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::dice::Dice;

/// What happens to a request instead of being passed on and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Passed on after so long.
    Slow(Duration),
    /// Refused with the throttling of a table; the server never sees it.
    TableThrottled,
    /// Refused with the throttling of an account; the server never sees it.
    AccountThrottled,
    /// Answered with a 500; the server never sees it.
    ErrorBefore,
    /// The server acts, and the answer is a 500.
    ErrorAfter,
    /// The connection ends; the server never sees the request.
    CutBefore,
    /// The server acts, and the connection ends before its answer.
    CutAfter,
    /// The server acts and its answer never comes, though the connection stays.
    SilenceAfter,
    /// As with an engine that does not say what was there when a condition fails.
    NoOldRow,
    /// The server does half of a batch, and seems to have left the rest over.
    HalfOfBatch,
}

/// Which requests meet a fault, and how often.
#[derive(Clone, Debug)]
pub struct Rule {
    fault: Fault,
    /// Such as `PutItem`; every one when there is none.
    operation: Option<&'static str>,
    percent: u64,
}

impl Rule {
    pub fn always(fault: Fault) -> Rule {
        Rule { fault, operation: None, percent: 100 }
    }

    pub fn sometimes(percent: u64, fault: Fault) -> Rule {
        Rule { fault, operation: None, percent }
    }

    pub fn on(mut self, operation: &'static str) -> Rule {
        self.operation = Some(operation);
        self
    }
}

/// Listens on a free port of loopback, until it is dropped.
pub struct DynamoProxy {
    address: String,
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    upstream: String,
    steering: Mutex<Steering>,
}

struct Steering {
    rules: Vec<Rule>,
    dice: Dice,
    connections: u64,
    requests: u64,
    faults: u64,
}

impl DynamoProxy {
    /// Passes everything on to the server at this address, until it is told otherwise.
    pub async fn start(upstream: String, seed: u64) -> DynamoProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let steering =
            Steering { rules: Vec::new(), dice: Dice::new(seed), connections: 0, requests: 0, faults: 0 };
        let shared = Arc::new(Shared { upstream, steering: Mutex::new(steering) });
        let task = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        DynamoProxy { address, shared, task }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on these rules; the first whose chance comes up decides.
    pub fn meet(&self, rules: impl IntoIterator<Item = Rule>) {
        self.shared.steering().rules = rules.into_iter().collect();
    }

    pub fn pass(&self) {
        self.meet([]);
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> u64 {
        self.shared.steering().connections
    }

    /// How many requests came so far.
    pub fn requests(&self) -> u64 {
        self.shared.steering().requests
    }

    /// How many of them met a fault.
    pub fn faults(&self) -> u64 {
        self.shared.steering().faults
    }
}

impl Drop for DynamoProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn steering(&self) -> MutexGuard<'_, Steering> {
        self.steering.lock().unwrap()
    }

    fn decide(&self, operation: &str) -> Option<Fault> {
        let mut steering = self.steering();
        let Steering { rules, dice, requests, faults, .. } = &mut *steering;
        *requests += 1;
        let concerns = |rule: &&Rule| rule.operation.is_none_or(|wanted| wanted == operation);
        let fault = rules.iter().filter(concerns).find(|rule| dice.below(100) < rule.percent)?.fault;
        *faults += 1;
        Some(fault)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Ends with this task, and the connections with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.steering().connections += 1;
        let shared = shared.clone();
        connections.spawn(async move {
            // Either side may go at any time; that is what it is for.
            let _ = serve(stream, &shared).await;
        });
    }
}

/// One HTTP/1.1 message, its body whole.
struct Message {
    first_line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

async fn serve(client: TcpStream, shared: &Shared) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    let mut server = None;
    while let Some(mut request) = Message::read(&mut client).await? {
        let target = request.header("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let fault = shared.decide(&operation);
        let mut left_over = None;
        match fault {
            Some(Fault::TableThrottled) => {
                refuse(&mut client, "400 Bad Request", "ProvisionedThroughputExceededException").await?;
                continue;
            }
            Some(Fault::AccountThrottled) => {
                refuse(&mut client, "400 Bad Request", "ThrottlingException").await?;
                continue;
            }
            Some(Fault::ErrorBefore) => {
                refuse(&mut client, "500 Internal Server Error", "InternalServerError").await?;
                continue;
            }
            Some(Fault::CutBefore) => return Ok(()),
            Some(Fault::Slow(delay)) => tokio::time::sleep(delay).await,
            Some(Fault::NoOldRow) => request.forget_old_row(),
            Some(Fault::HalfOfBatch) => left_over = request.halve(),
            Some(Fault::ErrorAfter | Fault::CutAfter | Fault::SilenceAfter) | None => {}
        }
        let mut answer = match &mut server {
            Some(server) => pass_on(&request, server).await,
            None => {
                let stream = TcpStream::connect(&shared.upstream).await?;
                stream.set_nodelay(true)?;
                pass_on(&request, server.insert(BufReader::new(stream))).await
            }
        }?;
        match fault {
            Some(Fault::ErrorAfter) => {
                refuse(&mut client, "500 Internal Server Error", "InternalServerError").await?;
            }
            Some(Fault::CutAfter) => return Ok(()),
            Some(Fault::SilenceAfter) => {
                // Until the client has enough of it.
                client.read_to_end(&mut Vec::new()).await?;
                return Ok(());
            }
            _ => {
                if let Some(left_over) = left_over {
                    answer.add(&format!("Unprocessed{}", left_over_name(&operation)), left_over);
                }
                answer.write(client.get_mut()).await?;
            }
        }
    }
    Ok(())
}

fn left_over_name(operation: &str) -> &'static str {
    if operation == "BatchGetItem" { "Keys" } else { "Items" }
}

async fn pass_on(request: &Message, server: &mut BufReader<TcpStream>) -> std::io::Result<Message> {
    request.write(server.get_mut()).await?;
    Message::read(server).await?.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

async fn refuse(client: &mut BufReader<TcpStream>, status: &str, error: &str) -> std::io::Result<()> {
    let answer = Message {
        first_line: format!("HTTP/1.1 {status}"),
        headers: vec![("content-type".to_owned(), "application/x-amz-json-1.0".to_owned())],
        body: format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{error}","message":"by the proxy"}}"#)
            .into(),
    };
    answer.write(client.get_mut()).await
}

impl Message {
    /// `None` at the end of the connection.
    async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<Message>> {
        let mut first_line = String::new();
        if stream.read_line(&mut first_line).await? == 0 {
            return Ok(None);
        }
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let mut message = Message { first_line: first_line.trim_end().to_owned(), headers, body: Vec::new() };
        if message.header("transfer-encoding") == Some("chunked") {
            message.body = read_chunks(stream).await?;
        } else if let Some(length) = message.header("content-length").and_then(|length| length.parse().ok()) {
            message.body.resize(length, 0);
            stream.read_exact(&mut message.body).await?;
        }
        Ok(Some(message))
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// With the length of its body, however that came.
    async fn write(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let mut text = format!("{}\r\n", self.first_line);
        let is_length = |name: &str| matches!(name, "content-length" | "transfer-encoding");
        for (name, value) in self.headers.iter().filter(|(name, _)| !is_length(name)) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("content-length: {}\r\n\r\n", self.body.len()));
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        stream.write_all(&bytes).await
    }

    fn forget_old_row(&mut self) {
        let body = String::from_utf8_lossy(&self.body);
        let (asked, nothing) =
            (r#""ReturnValuesOnConditionCheckFailure":"ALL_OLD""#, r#""ReturnValues":"NONE""#);
        self.body = body.replace(asked, nothing).into();
    }

    /// Takes half of the rows out of a batch; what was taken.
    fn halve(&mut self) -> Option<Value> {
        let mut body: Value = serde_json::from_slice(&self.body).ok()?;
        let mut taken = body["RequestItems"].clone();
        for (table, rows) in body["RequestItems"].as_object_mut()? {
            let rows = rows_of_batch(rows)?;
            let half = rows.len().div_ceil(2);
            rows.truncate(half);
            rows_of_batch(&mut taken[table])?.drain(..half);
        }
        taken.as_object_mut()?.retain(|_, rows| rows_of_batch(rows).is_some_and(|rows| !rows.is_empty()));
        self.body = body.to_string().into();
        Some(taken)
    }

    fn add(&mut self, name: &str, value: Value) {
        let mut body: Value = serde_json::from_slice(&self.body).unwrap();
        body[name] = value;
        self.body = body.to_string().into();
        // It was of the body as it came.
        self.headers.retain(|(name, _)| name != "x-amz-crc32");
    }
}

/// What is in the rows' place in a batch: a list of writes, or a list of keys inside.
fn rows_of_batch(table: &mut Value) -> Option<&mut Vec<Value>> {
    match table {
        Value::Array(writes) => Some(writes),
        reads => reads["Keys"].as_array_mut(),
    }
}

async fn read_chunks(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let length = usize::from_str_radix(line.trim_end(), 16).map_err(std::io::Error::other)?;
        let start = body.len();
        // Each chunk, also the last and empty one, ends with an empty line.
        body.resize(start + length + 2, 0);
        stream.read_exact(&mut body[start..]).await?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(body);
        }
    }
}
