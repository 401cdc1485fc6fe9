//! Background HTTP requests: the inbox after a reconnect, single rows, missing messages, and
//! display names. At most `AT_ONCE` run at a time; a failed request is retried after a pause.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bluetick_types::{ConversationId, UserId};
use tokio::task::JoinError;
use tokio::time::Instant;

use super::Driver;
use super::connection::ConnectionPhase;
use crate::api::{ApiError, PAGE_LIMIT, PageFrom};
use crate::shared::Shared;
use crate::state::{KEPT_ROWS, MessageArrival};
use crate::storage_writer::{Order, StorageBatch};
use crate::stored_state::name_change;
use crate::wire::bodies::{LastMessage, Message};

/// Maximum number of concurrent background requests. A larger value puts more load on the server
/// after a reconnect.
const AT_ONCE: usize = 4;
/// Pause before a failed request is retried, unless the server sent `Retry-After`. A shorter pause
/// adds load to a failing server.
const AGAIN_AFTER: Duration = Duration::from_secs(3);

/// A kind of background request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Fetch the inbox and the archive again.
    Reload,
    /// Fetch the row of one conversation.
    Refresh(ConversationId),
    /// Fetch the messages between `have_seq` and the head.
    Missing(ConversationId),
    /// Fetch display names.
    Names,
}

/// The result of a background request.
pub struct FinishedRequest {
    kind: RequestKind,
    outcome: Result<(), ApiError>,
}

/// A failed request and the time of its retry.
pub struct Retry {
    pub at: Instant,
    kind: RequestKind,
}

impl Driver {
    /// Queues the retries that are due, then starts requests up to `AT_ONCE`.
    pub(super) fn start_work(&mut self, now: Instant) {
        let (due, later) = std::mem::take(&mut self.again).into_iter().partition(|again| again.at <= now);
        self.again = later;
        let due: Vec<Retry> = due;
        if !due.is_empty() {
            self.shared.arrange(|state| {
                for again in due {
                    match again.kind {
                        RequestKind::Reload => state.todo.reload = true,
                        RequestKind::Refresh(id) => drop(state.todo.refresh.insert(id)),
                        RequestKind::Missing(id) => state.want_missing(id),
                        RequestKind::Names => {}
                    }
                }
            });
        }
        while self.work.len() < AT_ONCE
            && let Some(kind) = self.next_question()
        {
            self.asked.push(kind);
            let shared = Arc::clone(&self.shared);
            self.work.spawn(async move {
                let outcome = match kind {
                    RequestKind::Reload => reload(&shared).await,
                    RequestKind::Refresh(id) => refresh(&shared, id).await,
                    RequestKind::Missing(id) => fetch_missing(&shared, id).await,
                    RequestKind::Names => names(&shared).await,
                };
                FinishedRequest { kind, outcome }
            });
        }
    }

    /// Takes the next request: first the inbox, then single rows, then missing messages, then
    /// names. Missing messages are fetched for one conversation at a time. Returns `None` until the
    /// connection has caught up.
    fn next_question(&self) -> Option<RequestKind> {
        let asked = &self.asked;
        let waits = |kind: RequestKind| self.again.iter().any(|again| again.kind == kind);
        self.shared.arrange(|state| {
            if !state.connection.caught_up {
                return None;
            }
            if state.todo.reload && !asked.contains(&RequestKind::Reload) && !waits(RequestKind::Reload) {
                state.todo.reload = false;
                return Some(RequestKind::Reload);
            }
            let free = |id: &&ConversationId| {
                !asked.contains(&RequestKind::Refresh(**id)) && !waits(RequestKind::Refresh(**id))
            };
            if let Some(id) = state.todo.refresh.iter().find(free).copied() {
                state.todo.refresh.remove(&id);
                return Some(RequestKind::Refresh(id));
            }
            if !asked.iter().any(|kind| matches!(kind, RequestKind::Missing(_)))
                && let Some(at) = state.todo.missing.iter().position(|id| !waits(RequestKind::Missing(*id)))
            {
                return state.todo.missing.remove(at).map(RequestKind::Missing);
            }
            let names_wait = asked.contains(&RequestKind::Names) || waits(RequestKind::Names);
            (!names_wait && state.people.is_wanting()).then_some(RequestKind::Names)
        })
    }

    /// Handles a finished request: schedules a retry, removes a conversation that is gone, or logs
    /// out. Resumes the panic of a request task.
    pub(super) fn on_work(&mut self, done: Result<FinishedRequest, JoinError>) {
        let FinishedRequest { kind, outcome } = match done {
            Ok(work) => work,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        self.asked.retain(|asked| *asked != kind);
        let Err(error) = outcome else { return };
        match (&error, kind) {
            // The connection is already closed for another reason; keep that reason.
            (ApiError::LoggedOut, _) if matches!(self.line, ConnectionPhase::Closed) => {}
            (ApiError::LoggedOut, _) => self.log_out(),
            (_, RequestKind::Refresh(id) | RequestKind::Missing(id)) if error.is_gone() => {
                self.shared.change_as_driver(|state| state.gone(id));
            }
            (ApiError::Refused { retry_after: Some(after), .. }, _) => {
                self.again.push(Retry { at: Instant::now() + *after, kind });
            }
            _ => self.again.push(Retry { at: Instant::now() + AGAIN_AFTER, kind }),
        }
    }
}

/// Fetches as many inbox and archive entries as are known here (at most `KEPT_ROWS` each, at least
/// one page). Then forgets rows that neither these pages nor the frames of this connection mention.
async fn reload(shared: &Shared) -> Result<(), ApiError> {
    let mut confirmed = HashSet::new();
    for archived in [false, true] {
        let mut wanted = shared.read(|state| state.inbox.sorted(archived).len().min(KEPT_ROWS));
        let mut cursor: Option<String> = None;
        loop {
            let page = shared.api.inbox(archived, cursor.as_deref()).await?;
            cursor = page.next_cursor;
            wanted = wanted.saturating_sub(page.conversations.len());
            confirmed.extend(page.conversations.iter().map(|entry| entry.conversation_id));
            shared.change(|state| {
                page.conversations.into_iter().for_each(|entry| state.learn(entry));
                let place = if archived { &mut state.cursors.archive } else { &mut state.cursors.inbox };
                place.clone_from(&cursor);
            });
            if wanted == 0 || cursor.is_none() {
                break;
            }
        }
    }
    shared.change(|state| state.forget_unconfirmed(&confirmed));
    Ok(())
}

/// Fetches one conversation and updates its row, whatever its position in the inbox.
pub async fn refresh(shared: &Shared, id: ConversationId) -> Result<(), ApiError> {
    let mut entry = shared.api.conversation(id).await?.into_entry(&shared.read(|state| state.user.clone()));
    let known = shared.read(|state| {
        let row = state.inbox.get(id);
        row.and_then(|row| row.entry.last_message.clone()).filter(|last| last.seq >= entry.last_seq)
    });
    entry.last_message = known;
    if entry.last_message.is_none() && entry.last_seq >= entry.first_seq {
        entry.last_message = newest_message(shared, id).await?.map(|message| LastMessage {
            seq: message.seq,
            sender_id: message.sender_id,
            content: message.content,
            content_type: message.content_type,
        });
    }
    shared.change(|state| state.learn(entry));
    Ok(())
}

/// Fetches the message for the row's preview: the newest of the last 100 that is not a void.
async fn newest_message(shared: &Shared, id: ConversationId) -> Result<Option<Message>, ApiError> {
    let newest = shared.api.page(id, PageFrom::Newest, 1).await?.messages.into_iter().next();
    if !newest.as_ref().is_some_and(Message::is_void) {
        return Ok(newest);
    }
    let page = shared.api.page(id, PageFrom::Newest, PAGE_LIMIT).await?;
    Ok(page.messages.into_iter().find(|message| !message.is_void()))
}

/// Fetches pages above `have_seq` until the device has every message up to the head. Stops early if
/// a page makes no progress or the connection is lost.
async fn fetch_missing(shared: &Shared, id: ConversationId) -> Result<(), ApiError> {
    loop {
        let after = shared.read(|state| {
            let row = state.inbox.get(id).filter(|row| row.is_behind() && state.connection.caught_up)?;
            Some(row.have_seq)
        });
        let Some(after) = after else { return Ok(()) };
        let page = shared.api.page(id, PageFrom::After(after), PAGE_LIMIT).await?;
        let moved = shared.change(|state| {
            for message in page.messages {
                state.received(Arc::new(message), MessageArrival::Fetched);
            }
            // This loop fetches the rest, so remove the request that `received` has queued.
            state.todo.missing.retain(|missing| *missing != id);
            state.inbox.get(id).is_some_and(|row| row.have_seq > after)
        });
        if !moved {
            return Ok(());
        }
    }
}

/// Fetches the display names that are wanted. Stops asking for good if the server answers 404.
async fn names(shared: &Shared) -> Result<(), ApiError> {
    let Some(asked): Option<Vec<UserId>> = shared.arrange(|state| state.people.next_question()) else {
        return Ok(());
    };
    match shared.api.people(&asked).await {
        Ok(people) => {
            let news = shared.change(|state| state.people.answered(asked, people));
            let changes: Vec<_> = news.iter().map(name_change).collect();
            // An error means that the storage writer has ended and the client is shutting down.
            let _ordered =
                shared.orders.send(Order::Write(StorageBatch { changes, ..StorageBatch::default() })).await;
            Ok(())
        }
        Err(error) => {
            let for_good = error.is_not_found();
            shared.arrange(|state| state.people.not_answered(asked, for_good));
            if for_good { Ok(()) } else { Err(error) }
        }
    }
}
