//! Reads a device's backlog from the store and sends it at the pace of the device. No page stays in
//! memory while the client is slow: a page is read when the outbox has room, and messages that do
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

use super::session::Counted;
use crate::app::App;
use crate::hub::{Frame, Missing, Poured, Session, Then};
use crate::settings::at_most;

/// Number of conversations of one device whose backlogs are sent concurrently. A larger value lets
/// one device use more of the shared page permits.
const CONVERSATIONS_AT_ONCE: usize = 4;

/// Number of positions of one device that are stored as delivered concurrently. A larger value puts
/// more load on the store in a reconnect storm.
const MARKS_AT_ONCE: usize = 16;

/// Delay before a page is read again, while the ack of an own message passes through the store and
/// the fan-out. That takes about one sync of the log; a shorter delay reads the page more often.
const ACK_ON_ITS_WAY: Duration = Duration::from_millis(2);

/// Completes with `Ok` when `caught_up` is in the outbox, or with the code to close with.
pub(super) type CatchingUp = Pin<Box<dyn Future<Output = Result<(), CloseCode>> + Send>>;

/// Sends a registered session what its device misses above `positions`.
pub(super) fn catch_up(app: Arc<App>, session: Arc<Session>, positions: Vec<Position>) -> CatchingUp {
    Box::pin(async move {
        let missed = {
            let _turn = turn(&app).await;
            app.chat.behind(&session.user, positions.clone()).await.map_err(|error| failed(&error))?
        };
        for conversation in &missed.gone {
            session.outbox.has_room().await;
            session.outbox.push(Frame::from(encode_gone(*conversation)));
        }
        let backlog = Backlog { app, session };
        let (sent, ()) = join(backlog.send(&missed, &positions), backlog.acknowledge(&missed.behind)).await;
        sent
    })
}

/// Waits for a permit to read a backlog. All connections share the permits.
async fn turn(app: &App) -> tokio::sync::SemaphorePermit<'_> {
    app.backlog_pages.acquire().await.expect("the semaphore is never closed")
}

fn failed(error: &ChatError) -> CloseCode {
    match error {
        // The store's backend is unavailable for all connections, and the store logs that itself.
        ChatError::Store(StoreError::NoAnswer(_)) => {
            tracing::debug!(%error, "a backlog could not be read now");
        }
        _ => tracing::error!(%error, "a backlog could not be read"),
    }
    CloseCode::InternalError
}

#[derive(Clone)]
struct Backlog {
    app: Arc<App>,
    session: Arc<Session>,
}

impl Backlog {
    async fn send(&self, missed: &Missed, positions: &[Position]) -> Result<(), CloseCode> {
        let _counted = Counted::new(&self.app.metrics.catch_ups);
        let Session { outbox, catch_up, .. } = &*self.session;
        // Let the fan-out record what it is late with before deciding what is missing.
        self.app.hub.flush().await;
        let missing = catch_up.begin(outbox, missed, positions);
        let most = at_most(self.app.limits.backlog_conversations);
        let sent = missing.into_iter().enumerate().map(|(number, missing)| {
            let backlog = self.clone();
            async move {
                if number < most {
                    return backlog.send_messages(missing).await;
                }
                let Session { outbox, catch_up, .. } = &*backlog.session;
                outbox.has_room().await;
                catch_up.pass_over(outbox, missing);
                Ok(())
            }
        });
        stream::iter(sent).buffer_unordered(CONVERSATIONS_AT_ONCE).try_collect::<()>().await?;
        catch_up.finish(outbox);
        Ok(())
    }

    async fn send_messages(&self, missing: Missing) -> Result<(), CloseCode> {
        let most = at_most(self.app.limits.backlog_messages);
        let (mut sent, mut after) = (0, missing.after);
        // Messages may be large and room scarce, so the next page requests only as many as fitted
        // recently.
        let mut fitting = PageLimit::MAX.count();
        loop {
            self.session.outbox.has_room().await;
            let limit = fitting.min(most - sent);
            let Some((poured, cut)) = self.send_page(missing, after, limit, most - sent).await? else {
                return Ok(());
            };
            self.app.metrics.backlog_messages.inc_by(poured.pushed as u64);
            self.app.metrics.pushes.inc_by(poured.pushed as u64);
            sent += poured.pushed;
            after = poured.up_to;
            match poured.then {
                Then::Live => return Ok(()),
                Then::More if cut => fitting = poured.pushed.max(1),
                Then::More => fitting = (fitting * 2).min(PageLimit::MAX.count()),
                Then::Unsettled => tokio::time::sleep(ACK_ON_ITS_WAY).await,
            }
        }
    }

    /// Reads a page and sends what fits. Returns the progress, and whether messages of the page are
    /// left over. Returns `None` when the conversation is done: the user has left it, or its
    /// archive is unavailable. Holds the permit while the page is in memory.
    async fn send_page(
        &self,
        missing: Missing,
        after: Seq,
        limit: usize,
        most: usize,
    ) -> Result<Option<(Poured, bool)>, CloseCode> {
        let Session { outbox, catch_up, user, .. } = &*self.session;
        let _turn = turn(&self.app).await;
        let limit = i64::try_from(limit).ok().and_then(|limit| PageLimit::try_from(limit).ok());
        let limit = limit.expect("it is between 1 and the longest page");
        let id = missing.conversation;
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
                tracing::debug!(conversation = %id, %why, "a backlog is in the archive, which does not answer");
                catch_up.pass_over(outbox, missing);
                return Ok(None);
            }
            Err(error) => return Err(failed(&error)),
        };
        // Acks of the session's own messages on this page: those of finished sends have passed the
        // fan-out after the flush. `pour` stops at a message whose send is unfinished.
        let unsettled = catch_up.unsettled(id);
        self.app.hub.flush().await;
        let poured = catch_up.pour(outbox, id, user, &page, &unsettled, most);
        Ok(Some((poured, poured.pushed < page.messages.len())))
    }

    /// Stores as delivered the positions that the device reported and had not acknowledged.
    async fn acknowledge(&self, behind: &[Behind]) {
        let said = behind.iter().filter(|behind| behind.unacknowledged);
        let said: Vec<Receipt> = said.map(|behind| self.said(behind)).collect();
        let marks = said.into_iter().map(|mark| {
            let Backlog { app, session } = self.clone();
            async move {
                let Ok(_work) = app.lifecycle.begin_work() else { return };
                if let Err(error) = app.chat.apply_receipt(mark).await {
                    // The device reports the position again when it reconnects.
                    tracing::debug!(session = %session.id, %error, "a position could not be marked as delivered");
                }
            }
        });
        stream::iter(marks).buffer_unordered(MARKS_AT_ONCE).collect::<()>().await;
    }

    /// The receipt for one reported position.
    fn said(&self, behind: &Behind) -> Receipt {
        Receipt {
            conversation: behind.conversation,
            user: self.session.user.clone(),
            kind: ReceiptKind::Delivered,
            seq: behind.after,
            origin: Some(Origin::from(self.session.id)),
        }
    }
}
