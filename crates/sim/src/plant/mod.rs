//! Bugs on purpose, planted at the ports around the servers: the auditor has to find each of them.

mod listener;
mod store;

use std::sync::Arc;

use bluetick_core::ports::{CommitListener, Store};

use crate::audit::Guarantee;
use crate::world::WorldKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// The disk says that it has synced and has not.
    AckBeforeSync,
    /// A place is given to two messages, as far as the senders are told.
    SeqReused,
    /// A message is written over another one where a counter was set back.
    Overwrite,
    /// A tick that was told is told smaller later.
    TicksGoBack,
    /// Two messages of a conversation are delivered in the wrong order.
    PushOutOfOrder,
    /// A message is not delivered to whoever is connected.
    PushLost,
    /// A device that comes back is not sent what it is owed in one conversation.
    MissedPending,
    /// A hole is said to be closed with a void and is not.
    LostVoid,
    /// After a restart the ids of earlier messages are not known any more.
    DedupeForgottenAtRestart,
    /// One more is unread than there is.
    UnreadOffByOne,
    /// Delivered is told as soon as a message is pushed.
    DeliveredWithoutDevice,
    /// A page is given to whoever asks.
    PageForAnybody,
    /// Somebody who says that it has read more than there is, is taken at its word.
    TickPastHead,
    /// What is told first of somebody after a restart is less than what was told before.
    TicksBehindAtRestart,
    /// That somebody has moved is not told.
    TickLost,
    /// What a device says is answered and forgotten.
    MarkLost,
    /// A device is not sent the beginning of a conversation that is new to it.
    BeginningLost,
    /// Whoever was taken out of a group hears what is said there.
    HeardOutside,
    /// Something else under an id that was used before is taken for the same.
    ConflictTaken,
    /// A token that was revoked is good all the same.
    TokenStaysGood,
    /// What a token had opened that is revoked stays open.
    SessionStaysOpen,
}

impl Plant {
    pub const ALL: [Plant; 21] = [
        Plant::AckBeforeSync,
        Plant::SeqReused,
        Plant::Overwrite,
        Plant::TicksGoBack,
        Plant::PushOutOfOrder,
        Plant::PushLost,
        Plant::MissedPending,
        Plant::LostVoid,
        Plant::DedupeForgottenAtRestart,
        Plant::UnreadOffByOne,
        Plant::DeliveredWithoutDevice,
        Plant::PageForAnybody,
        Plant::TickPastHead,
        Plant::TicksBehindAtRestart,
        Plant::TickLost,
        Plant::MarkLost,
        Plant::BeginningLost,
        Plant::HeardOutside,
        Plant::ConflictTaken,
        Plant::TokenStaysGood,
        Plant::SessionStaysOpen,
    ];

    /// Where it can grow.
    pub fn world(self) -> WorldKind {
        match self {
            Plant::Overwrite | Plant::LostVoid => WorldKind::Fleet,
            _ => WorldKind::Embedded,
        }
    }

    /// What it breaks; one bug may show as the breach of several.
    pub fn breaks(self) -> &'static [Guarantee] {
        match self {
            Plant::AckBeforeSync => {
                &[Guarantee::NoLoss, Guarantee::NoOverwrite, Guarantee::Order, Guarantee::OnceInTheView]
            }
            Plant::SeqReused => {
                &[Guarantee::NoOverwrite, Guarantee::NoDuplicate, Guarantee::Order, Guarantee::Dense]
            }
            // A message whose place is said to be somebody else's, or nobody's, was a reply all the same.
            Plant::Overwrite => &[
                Guarantee::NoOverwrite,
                Guarantee::NoDuplicate,
                Guarantee::NoLoss,
                Guarantee::Dense,
                Guarantee::DeliveredByDevice,
            ],
            Plant::TicksGoBack
            | Plant::TickPastHead
            | Plant::TicksBehindAtRestart
            | Plant::TickLost
            | Plant::MarkLost => &[Guarantee::TicksForward],
            Plant::PushOutOfOrder => &[Guarantee::Order, Guarantee::OnceInTheView],
            Plant::PushLost | Plant::MissedPending | Plant::BeginningLost => &[Guarantee::OnceInTheView],
            Plant::LostVoid => &[
                Guarantee::Dense,
                Guarantee::NoDuplicate,
                Guarantee::OnceInTheView,
                Guarantee::NoOverwrite,
                Guarantee::DeliveredByDevice,
            ],
            Plant::DedupeForgottenAtRestart | Plant::ConflictTaken => &[Guarantee::NoDuplicate],
            Plant::UnreadOffByOne => &[Guarantee::UnreadExact],
            Plant::DeliveredWithoutDevice => &[Guarantee::DeliveredByDevice],
            Plant::PageForAnybody | Plant::HeardOutside | Plant::TokenStaysGood | Plant::SessionStaysOpen => {
                &[Guarantee::Private]
            }
        }
    }
}

/// Between the store and the hub.
pub fn rig_listener(plant: Option<Plant>, listener: Arc<dyn CommitListener>) -> Arc<dyn CommitListener> {
    match plant {
        Some(
            plant @ (Plant::TicksGoBack
            | Plant::TicksBehindAtRestart
            | Plant::TickLost
            | Plant::PushOutOfOrder
            | Plant::PushLost
            | Plant::HeardOutside
            | Plant::SessionStaysOpen
            | Plant::DeliveredWithoutDevice),
        ) => Arc::new(listener::Rigged::new(plant, listener)),
        _ => listener,
    }
}

/// Between the store and the server.
pub fn rig_store(plant: Option<Plant>, store: Arc<dyn Store>) -> Arc<dyn Store> {
    match plant {
        Some(
            plant @ (Plant::SeqReused
            | Plant::MissedPending
            | Plant::UnreadOffByOne
            | Plant::PageForAnybody
            | Plant::TickPastHead
            | Plant::MarkLost
            | Plant::BeginningLost
            | Plant::ConflictTaken
            | Plant::TokenStaysGood),
        ) => Arc::new(store::Rigged::new(plant, store)),
        _ => store,
    }
}
