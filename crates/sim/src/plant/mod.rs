//! Deliberate bugs, planted at the ports around the servers. The auditor must find each of them.

mod listener;
mod store;

use std::sync::Arc;

use bluetick_core::ports::{CommitListener, Store};

use crate::audit::Guarantee;
use crate::world::WorldKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// The disk confirms a sync that did not happen.
    AckBeforeSync,
    /// Two senders receive the same seq in their acks.
    SeqReused,
    /// Message rows are put unconditionally, so a seq allocated twice overwrites a message.
    Overwrite,
    /// A published tick is published lower later.
    TicksGoBack,
    /// Two messages of a conversation are pushed in the wrong order.
    PushOutOfOrder,
    /// A message is not pushed to connected devices.
    PushLost,
    /// A reconnecting device misses its backlog in one conversation.
    MissedPending,
    /// The tables confirm the void that fills a gap, but do not store it.
    LostVoid,
    /// After a restart the ids of earlier messages are forgotten.
    DedupeForgottenAtRestart,
    /// The unread count is one too high.
    UnreadOffByOne,
    /// Delivered is published as soon as a message is pushed.
    DeliveredWithoutDevice,
    /// Non-members can read pages.
    PageForAnybody,
    /// A receipt above the head is taken at face value.
    TickPastHead,
    /// The first tick published after a restart is lower than the last one before it.
    TicksBehindAtRestart,
    /// The change of a read state is not published.
    TickLost,
    /// A receipt is answered but not stored.
    MarkLost,
    /// A device does not get the first message of a conversation that is new to it.
    BeginningLost,
    /// Removed members still receive the group's messages.
    HeardOutside,
    /// Other content under a used message id is accepted as a duplicate.
    ConflictTaken,
    /// A revoked token stays valid.
    TokenStaysGood,
    /// The connections of a revoked token stay open.
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

    /// The world in which the bug can occur.
    pub fn world(self) -> WorldKind {
        match self {
            Plant::Overwrite | Plant::LostVoid => WorldKind::Fleet,
            _ => WorldKind::Embedded,
        }
    }

    /// The guarantees as whose violation the bug may be reported.
    pub fn breaks(self) -> &'static [Guarantee] {
        match self {
            Plant::AckBeforeSync => {
                &[Guarantee::NoLoss, Guarantee::NoOverwrite, Guarantee::Order, Guarantee::OnceInTheView]
            }
            Plant::SeqReused => {
                &[Guarantee::NoOverwrite, Guarantee::NoDuplicate, Guarantee::Order, Guarantee::Dense]
            }
            // The sender's read state advances by its reply, although the reply's seq shows another
            // message or a void.
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

/// Wraps the commit listener, between the store and the hub, if the bug belongs there.
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

/// Wraps the store, as the server sees it, if the bug belongs there.
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
