//! A fault-injecting proxy in front of a DynamoDB server. Tests make it delay, refuse, cut or lose
//! requests and answers.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::dice::Dice;

/// The fault that replaces the normal answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The request is forwarded after this delay.
    Slow(Duration),
    /// Refused with table throttling; the server never sees the request.
    TableThrottled,
    /// Refused with account throttling; the server never sees the request.
    AccountThrottled,
    /// Answered with a 500; the server never sees the request.
    ErrorBefore,
    /// The server executes the request, and the client gets a 500.
    ErrorAfter,
    /// The connection is closed; the server never sees the request.
    CutBefore,
    /// The server executes the request, and the connection is closed before the answer.
    CutAfter,
    /// The server executes the request, the connection stays open, and no answer arrives.
    SilenceAfter,
    /// Behaves like an engine that does not return the old row when a condition fails.
    NoOldRow,
    /// The server executes half of a batch, and the answer reports the rest as unprocessed.
    HalfOfBatch,
}

/// A fault, the requests it applies to, and its probability.
#[derive(Clone, Debug)]
pub struct FaultRule {
    fault: RequestFault,
    /// The operation, such as `PutItem`; `None` for all.
    operation: Option<&'static str>,
    percent: u64,
}

impl FaultRule {
    pub fn always(fault: RequestFault) -> FaultRule {
        FaultRule { fault, operation: None, percent: 100 }
    }

    pub fn sometimes(percent: u64, fault: RequestFault) -> FaultRule {
        FaultRule { fault, operation: None, percent }
    }

    pub fn on(mut self, operation: &'static str) -> FaultRule {
        self.operation = Some(operation);
        self
    }
}

/// The proxy, on a free loopback port. It stops when it is dropped.
pub struct DynamoProxy {
    address: String,
    shared: Arc<DynamoProxyState>,
    task: AbortHandle,
}

struct DynamoProxyState {
    upstream: String,
    steering: Mutex<FaultControl>,
}

struct FaultControl {
    rules: Vec<FaultRule>,
    dice: Dice,
    connections: u64,
    requests: u64,
    faults: u64,
}

impl DynamoProxy {
    /// Starts the proxy. It forwards everything to `upstream` until rules are set.
    pub async fn start(upstream: String, seed: u64) -> DynamoProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let steering =
            FaultControl { rules: Vec::new(), dice: Dice::new(seed), connections: 0, requests: 0, faults: 0 };
        let shared = Arc::new(DynamoProxyState { upstream, steering: Mutex::new(steering) });
        let task = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        DynamoProxy { address, shared, task }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Replaces the rules. The first rule that applies and whose chance comes up decides.
    pub fn meet(&self, rules: impl IntoIterator<Item = FaultRule>) {
        self.shared.steering().rules = rules.into_iter().collect();
    }

    pub fn pass(&self) {
        self.meet([]);
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.steering().connections
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> u64 {
        self.shared.steering().requests
    }

    /// Returns the number of requests that met a fault.
    pub fn faults(&self) -> u64 {
        self.shared.steering().faults
    }
}

impl Drop for DynamoProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl DynamoProxyState {
    fn steering(&self) -> MutexGuard<'_, FaultControl> {
        self.steering.lock().unwrap()
    }

    fn decide(&self, operation: &str) -> Option<RequestFault> {
        let mut steering = self.steering();
        let FaultControl { rules, dice, requests, faults, .. } = &mut *steering;
        *requests += 1;
        let concerns = |rule: &&FaultRule| rule.operation.is_none_or(|wanted| wanted == operation);
        let fault = rules.iter().filter(concerns).find(|rule| dice.below(100) < rule.percent)?.fault;
        *faults += 1;
        Some(fault)
    }
}

async fn accept(listener: TcpListener, shared: Arc<DynamoProxyState>) {
    // Dropping the set with this task ends the connections.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        shared.steering().connections += 1;
        let shared = shared.clone();
        connections.spawn(async move {
            // Either side may close at any time, so errors are expected.
            let _ = serve(stream, &shared).await;
        });
    }
}

/// An HTTP/1.1 message with its complete body.
struct HttpMessage {
    first_line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

async fn serve(client: TcpStream, shared: &DynamoProxyState) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufReader::new(client);
    let mut server = None;
    while let Some(mut request) = HttpMessage::read(&mut client).await? {
        let target = request.header("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let fault = shared.decide(&operation);
        let mut left_over = None;
        match fault {
            Some(RequestFault::TableThrottled) => {
                refuse(&mut client, "400 Bad Request", "ProvisionedThroughputExceededException").await?;
                continue;
            }
            Some(RequestFault::AccountThrottled) => {
                refuse(&mut client, "400 Bad Request", "ThrottlingException").await?;
                continue;
            }
            Some(RequestFault::ErrorBefore) => {
                refuse(&mut client, "500 Internal Server Error", "InternalServerError").await?;
                continue;
            }
            Some(RequestFault::CutBefore) => return Ok(()),
            Some(RequestFault::Slow(delay)) => tokio::time::sleep(delay).await,
            Some(RequestFault::NoOldRow) => request.forget_old_row(),
            Some(RequestFault::HalfOfBatch) => left_over = request.halve(),
            Some(RequestFault::ErrorAfter | RequestFault::CutAfter | RequestFault::SilenceAfter) | None => {}
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
            Some(RequestFault::ErrorAfter) => {
                refuse(&mut client, "500 Internal Server Error", "InternalServerError").await?;
            }
            Some(RequestFault::CutAfter) => return Ok(()),
            Some(RequestFault::SilenceAfter) => {
                // Wait until the client gives up.
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

async fn pass_on(request: &HttpMessage, server: &mut BufReader<TcpStream>) -> std::io::Result<HttpMessage> {
    request.write(server.get_mut()).await?;
    HttpMessage::read(server).await?.ok_or_else(|| std::io::ErrorKind::UnexpectedEof.into())
}

async fn refuse(client: &mut BufReader<TcpStream>, status: &str, error: &str) -> std::io::Result<()> {
    let answer = HttpMessage {
        first_line: format!("HTTP/1.1 {status}"),
        headers: vec![("content-type".to_owned(), "application/x-amz-json-1.0".to_owned())],
        body: format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{error}","message":"by the proxy"}}"#)
            .into(),
    };
    answer.write(client.get_mut()).await
}

impl HttpMessage {
    /// Reads a message. Returns `None` at the end of the connection.
    async fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Option<HttpMessage>> {
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
        let mut message =
            HttpMessage { first_line: first_line.trim_end().to_owned(), headers, body: Vec::new() };
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

    /// Writes the message with a `content-length` header, whatever encoding it arrived in.
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

    /// Removes half of the rows from a batch and returns them.
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
        // The checksum belongs to the original body.
        self.headers.retain(|(name, _)| name != "x-amz-crc32");
    }
}

/// Returns the rows of a table in a batch: a list of writes, or the list under `Keys`.
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
        // Each chunk, including the empty last one, ends with CRLF.
        body.resize(start + length + 2, 0);
        stream.read_exact(&mut body[start..]).await?;
        body.truncate(start + length);
        if length == 0 {
            return Ok(body);
        }
    }
}
