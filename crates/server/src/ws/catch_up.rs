//! What a device missed, read from the store and sent in the rhythm in which it reads. Nothing is kept in memory
//! while the client is waited for: a page is read when there is room for it, and what does not fit is read again
//! later.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bluetick_core::chat::ChatError;
use bluetick_core::ports::{Behind, Mark, Missed, Origin, Position};
use bluetick_core::{MarkKind, PageFrom, PageLimit, Refusal, Seq, StoreError};
use bluetick_wire::CloseCode;
use bluetick_wire::frame::encode_gone;
use futures_util::future::join;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::session::Counted;
use crate::app::App;
use crate::hub::{Frame, Missing, Poured, Session, Then};
use crate::settings::at_most;

/// Conversations of one device that are sent side by side.
const CONVERSATIONS_AT_ONCE: usize = 4;

/// Positions of one device that are marked as delivered side by side.
const MARKS_AT_ONCE: usize = 16;

/// The ack of an own message is on its way through the store and the fan-out; it takes about a sync of the log.
const ACK_ON_ITS_WAY: Duration = Duration::from_millis(2);

/// Ends with `Ok` when the client has been told that it has caught up, or with the code to close with.
pub(super) type CatchingUp = Pin<Box<dyn Future<Output = Result<(), CloseCode>> + Send>>;

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

async fn turn(app: &App) -> tokio::sync::SemaphorePermit<'_> {
    app.backlog_pages.acquire().await.expect("the semaphore is never closed")
}

fn failed(error: &ChatError) -> CloseCode {
    match error {
        // Whatever is behind the store is away for everybody, and tells the log itself.
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
        // What the fan-out is late with is noted before it is settled what is missing.
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
        // Messages may be large and there may be room for few, so the next page asks for no more than lately fitted.
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

    /// Reads a page and sends what there is room for; tells how far that went and whether something of the page was
    /// left. `None` when the user has left the conversation. The turn is held as long as the page.
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
            // The device pages it by itself when the archive is there again; all else goes on.
            Err(ChatError::Store(StoreError::Unavailable(why))) => {
                // The vault tells the log when it falls silent; here it would be once for each conversation.
                tracing::debug!(conversation = %id, %why, "a backlog is in the archive, which does not answer");
                catch_up.pass_over(outbox, missing);
                return Ok(None);
            }
            Err(error) => return Err(failed(&error)),
        };
        // The acks of the session's own messages on this page: those whose sends are over are with the fan-out, and
        // have passed it after the flush; the others are waited for.
        let unsettled = catch_up.unsettled(id);
        self.app.hub.flush().await;
        let poured = catch_up.pour(outbox, id, user, &page, &unsettled, most);
        Ok(Some((poured, poured.pushed < page.messages.len())))
    }

    /// By its positions the device said what it has.
    async fn acknowledge(&self, behind: &[Behind]) {
        let said = behind.iter().filter(|behind| behind.unacknowledged);
        let said: Vec<Mark> = said.map(|behind| self.said(behind)).collect();
        let marks = said.into_iter().map(|mark| {
            let Backlog { app, session } = self.clone();
            async move {
                let Ok(_work) = app.lifecycle.begin_work() else { return };
                if let Err(error) = app.chat.mark(mark).await {
                    // The device says it again when it comes back.
                    tracing::debug!(session = %session.id, %error, "a position could not be marked as delivered");
                }
            }
        });
        stream::iter(marks).buffer_unordered(MARKS_AT_ONCE).collect::<()>().await;
    }

    fn said(&self, behind: &Behind) -> Mark {
        Mark {
            conversation: behind.conversation,
            user: self.session.user.clone(),
            kind: MarkKind::Delivered,
            seq: behind.after,
            origin: Some(Origin::from(self.session.id)),
        }
    }
}
