//! Reads a device's backlog from the store and sends it at the pace of the device. No page stays in
//! memory while the client is slow. A page is read when the outbox has room, and messages that do
//! not fit are read again later.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Behind, Missed, Origin, Position, Receipt};
use bluetick_core::{PageFrom, PageLimit, ReceiptKind, Refusal, Seq, StoreError};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_gone;
use futures_util::future::join;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::session::GaugeGuard;
use crate::app::App;
use crate::delivery::{BacklogRange, EncodedFrame, NextStep, PageOutcome, WebSocketSession};
use crate::settings::at_most;

/// Number of conversations of one device whose backlogs are sent concurrently. A larger value lets
/// one device use more of the shared page permits.
const MAX_CONCURRENT_CONVERSATIONS: usize = 4;

/// Number of positions of one device that are stored as delivered concurrently. A larger value puts
/// more load on the store in a reconnect storm.
const MAX_CONCURRENT_RECEIPTS: usize = 16;

/// Delay before a page is read again, while the ack of an own message passes through the store and
/// the fan-out. That takes about one sync of the log; a shorter delay reads the page more often.
const ACK_RETRY_DELAY: Duration = Duration::from_millis(2);

/// Completes with `Ok` when `caught_up` is in the outbox, or with the code to close with.
pub(super) type CatchingUp = Pin<Box<dyn Future<Output = Result<(), CloseCode>> + Send>>;

/// Sends a registered session what its device misses above `positions`.
pub(super) fn catch_up(
    app: Arc<App>,
    session: Arc<WebSocketSession>,
    positions: Vec<Position>,
) -> CatchingUp {
    Box::pin(async move {
        let missed = {
            let _permit = page_permit(&app).await;
            app.chat.behind(&session.user, positions.clone()).await.map_err(|error| failed(&error))?
        };
        for conversation in &missed.gone {
            session.outbox.has_room().await;
            session.outbox.push(EncodedFrame::from(encode_gone(*conversation)));
        }
        let backlog = BacklogSender { app, session };
        let (sent, ()) =
            join(backlog.send(&missed, &positions), backlog.store_delivered(&missed.behind)).await;
        sent
    })
}

/// Waits for a permit to read a backlog. All connections share the permits.
async fn page_permit(app: &App) -> tokio::sync::SemaphorePermit<'_> {
    app.backlog_pages.acquire().await.expect("no code closes this semaphore")
}

fn failed(error: &ChatError) -> CloseCode {
    match error {
        // The store's backend is unavailable for all connections, and the store logs that itself.
        ChatError::Store(StoreError::NoAnswer(_)) => {
            tracing::debug!(%error, "backlog unavailable: the store does not answer");
        }
        _ => tracing::error!(%error, "backlog read failed"),
    }
    CloseCode::InternalError
}

#[derive(Clone)]
struct BacklogSender {
    app: Arc<App>,
    session: Arc<WebSocketSession>,
}

impl BacklogSender {
    async fn send(&self, missed: &Missed, positions: &[Position]) -> Result<(), CloseCode> {
        let _gauge_guard = GaugeGuard::new(&self.app.metrics.catch_ups);
        let WebSocketSession { outbox, catch_up, .. } = &*self.session;
        // Let the fan-out record late messages before deciding what is missing.
        self.app.hub.flush().await;
        let ranges = catch_up.begin(outbox, missed, positions);
        let most = at_most(self.app.limits.backlog_conversations);
        let sent = ranges.into_iter().enumerate().map(|(number, range)| {
            let backlog = self.clone();
            async move {
                if number < most {
                    return backlog.send_messages(range).await;
                }
                let WebSocketSession { outbox, catch_up, .. } = &*backlog.session;
                outbox.has_room().await;
                catch_up.skip_to_paging(outbox, range);
                Ok(())
            }
        });
        stream::iter(sent).buffer_unordered(MAX_CONCURRENT_CONVERSATIONS).try_collect::<()>().await?;
        catch_up.finish(outbox);
        Ok(())
    }

    async fn send_messages(&self, range: BacklogRange) -> Result<(), CloseCode> {
        let most = at_most(self.app.limits.backlog_messages);
        let (mut sent, mut after) = (0, range.after);
        // Large messages may not fit into the outbox, so the next page requests only as many as
        // fitted recently.
        let mut fitting = PageLimit::MAX.count();
        loop {
            self.session.outbox.has_room().await;
            let limit = fitting.min(most - sent);
            let Some((outcome, cut)) = self.send_page(range, after, limit, most - sent).await? else {
                return Ok(());
            };
            self.app.metrics.backlog_messages.inc_by(outcome.pushed as u64);
            self.app.metrics.pushes.inc_by(outcome.pushed as u64);
            sent += outcome.pushed;
            after = outcome.up_to;
            match outcome.next_step {
                NextStep::Live => return Ok(()),
                NextStep::More if cut => fitting = outcome.pushed.max(1),
                NextStep::More => fitting = (fitting * 2).min(PageLimit::MAX.count()),
                NextStep::AckPending => tokio::time::sleep(ACK_RETRY_DELAY).await,
            }
        }
    }

    /// Reads a page and sends what fits. Returns the progress, and whether messages of the page are
    /// left over. Returns `None` when the conversation is done: the user has left it, or its
    /// archive is unavailable. Holds the permit while the page is in memory.
    async fn send_page(
        &self,
        range: BacklogRange,
        after: Seq,
        limit: usize,
        most: usize,
    ) -> Result<Option<(PageOutcome, bool)>, CloseCode> {
        let WebSocketSession { outbox, catch_up, user, .. } = &*self.session;
        let _permit = page_permit(&self.app).await;
        let limit = i64::try_from(limit).ok().and_then(|limit| PageLimit::try_from(limit).ok());
        let limit = limit.expect("`limit` is between 1 and the maximum page size");
        let id = range.conversation;
        let page = match self.app.chat.history(user, id, PageFrom::After(after), limit).await {
            Ok(page) => page,
            Err(ChatError::Store(StoreError::Refused(Refusal::NotAMember))) => {
                catch_up.abandon(outbox, id);
                return Ok(None);
            }
            // The archive is unavailable: the device pages this conversation itself later, and the
            // others continue.
            Err(ChatError::Store(StoreError::Unavailable(why))) => {
                // The archive logs its outage once; here it would be logged for each conversation.
                tracing::debug!(conversation = %id, %why, "backlog skipped: the archive is unavailable");
                catch_up.skip_to_paging(outbox, range);
                return Ok(None);
            }
            Err(error) => return Err(failed(&error)),
        };
        // Acks of the session's own messages on this page: those of finished sends have passed the
        // fan-out after the flush. `push_page` stops at a message whose send is unfinished.
        let pending_sends = catch_up.pending_sends(id);
        self.app.hub.flush().await;
        let outcome = catch_up.push_page(outbox, id, user, &page, &pending_sends, most);
        Ok(Some((outcome, outcome.pushed < page.messages.len())))
    }

    /// Stores as delivered the positions that the device reported and had not acknowledged.
    async fn store_delivered(&self, behind: &[Behind]) {
        let unacknowledged = behind.iter().filter(|behind| behind.unacknowledged);
        let receipts: Vec<Receipt> = unacknowledged.map(|behind| self.receipt_for(behind)).collect();
        let stored = receipts.into_iter().map(|receipt| {
            let BacklogSender { app, session } = self.clone();
            async move {
                let Ok(_work) = app.lifecycle.begin_work() else { return };
                if let Err(error) = app.chat.apply_receipt(receipt).await {
                    // The device reports the position again when it reconnects.
                    tracing::debug!(session = %session.id, %error, "reported position could not be stored as delivered");
                }
            }
        });
        stream::iter(stored).buffer_unordered(MAX_CONCURRENT_RECEIPTS).collect::<()>().await;
    }

    /// The receipt for one reported position.
    fn receipt_for(&self, behind: &Behind) -> Receipt {
        Receipt {
            conversation: behind.conversation,
            user: self.session.user.clone(),
            kind: ReceiptKind::Delivered,
            seq: behind.after,
            origin: Some(Origin::from(self.session.id)),
        }
    }
}
