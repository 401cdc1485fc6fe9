//! Deliberate bugs, planted at the ports around the servers. The auditor must find each of them.

mod listener;
mod store;

use std::sync::Arc;

use bluetick_core::ports::{CommitListener, Store};

use crate::audit::Guarantee;
use crate::world::WorldKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PlantedBug {
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
    /// A receipt above the head is accepted unchanged.
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

impl PlantedBug {
    /// Every bug, in the order of the output.
    pub const ALL: [PlantedBug; 21] = [
        PlantedBug::AckBeforeSync,
        PlantedBug::SeqReused,
        PlantedBug::Overwrite,
        PlantedBug::TicksGoBack,
        PlantedBug::PushOutOfOrder,
        PlantedBug::PushLost,
        PlantedBug::MissedPending,
        PlantedBug::LostVoid,
        PlantedBug::DedupeForgottenAtRestart,
        PlantedBug::UnreadOffByOne,
        PlantedBug::DeliveredWithoutDevice,
        PlantedBug::PageForAnybody,
        PlantedBug::TickPastHead,
        PlantedBug::TicksBehindAtRestart,
        PlantedBug::TickLost,
        PlantedBug::MarkLost,
        PlantedBug::BeginningLost,
        PlantedBug::HeardOutside,
        PlantedBug::ConflictTaken,
        PlantedBug::TokenStaysGood,
        PlantedBug::SessionStaysOpen,
    ];

    /// The world in which the bug can occur.
    pub fn world(self) -> WorldKind {
        match self {
            PlantedBug::Overwrite | PlantedBug::LostVoid => WorldKind::Fleet,
            _ => WorldKind::Embedded,
        }
    }

    /// The guarantees as whose violation the bug may be reported.
    pub fn breaks(self) -> &'static [Guarantee] {
        match self {
            PlantedBug::AckBeforeSync => {
                &[Guarantee::NoLoss, Guarantee::NoOverwrite, Guarantee::Order, Guarantee::OnceInTheView]
            }
            PlantedBug::SeqReused => {
                &[Guarantee::NoOverwrite, Guarantee::NoDuplicate, Guarantee::Order, Guarantee::Dense]
            }
            // The sender's read state advances by its reply, although the reply's seq shows another
            // message or a void.
            PlantedBug::Overwrite => &[
                Guarantee::NoOverwrite,
                Guarantee::NoDuplicate,
                Guarantee::NoLoss,
                Guarantee::Dense,
                Guarantee::DeliveredByDevice,
            ],
            PlantedBug::TicksGoBack
            | PlantedBug::TickPastHead
            | PlantedBug::TicksBehindAtRestart
            | PlantedBug::TickLost
            | PlantedBug::MarkLost => &[Guarantee::TicksForward],
            PlantedBug::PushOutOfOrder => &[Guarantee::Order, Guarantee::OnceInTheView],
            PlantedBug::PushLost | PlantedBug::MissedPending | PlantedBug::BeginningLost => {
                &[Guarantee::OnceInTheView]
            }
            PlantedBug::LostVoid => &[
                Guarantee::Dense,
                Guarantee::NoDuplicate,
                Guarantee::OnceInTheView,
                Guarantee::NoOverwrite,
                Guarantee::DeliveredByDevice,
            ],
            PlantedBug::DedupeForgottenAtRestart | PlantedBug::ConflictTaken => &[Guarantee::NoDuplicate],
            PlantedBug::UnreadOffByOne => &[Guarantee::UnreadExact],
            PlantedBug::DeliveredWithoutDevice => &[Guarantee::DeliveredByDevice],
            PlantedBug::PageForAnybody
            | PlantedBug::HeardOutside
            | PlantedBug::TokenStaysGood
            | PlantedBug::SessionStaysOpen => &[Guarantee::Private],
        }
    }
}

/// Wraps the commit listener, between the store and the hub, if the bug belongs there.
pub fn rig_listener(plant: Option<PlantedBug>, listener: Arc<dyn CommitListener>) -> Arc<dyn CommitListener> {
    match plant {
        Some(
            plant @ (PlantedBug::TicksGoBack
            | PlantedBug::TicksBehindAtRestart
            | PlantedBug::TickLost
            | PlantedBug::PushOutOfOrder
            | PlantedBug::PushLost
            | PlantedBug::HeardOutside
            | PlantedBug::SessionStaysOpen
            | PlantedBug::DeliveredWithoutDevice),
        ) => Arc::new(listener::RiggedListener::new(plant, listener)),
        _ => listener,
    }
}

/// Wraps the store, as the server sees it, if the bug belongs there.
pub fn rig_store(plant: Option<PlantedBug>, store: Arc<dyn Store>) -> Arc<dyn Store> {
    match plant {
        Some(
            plant @ (PlantedBug::SeqReused
            | PlantedBug::MissedPending
            | PlantedBug::UnreadOffByOne
            | PlantedBug::PageForAnybody
            | PlantedBug::TickPastHead
            | PlantedBug::MarkLost
            | PlantedBug::BeginningLost
            | PlantedBug::ConflictTaken
            | PlantedBug::TokenStaysGood),
        ) => Arc::new(store::RiggedStore::new(plant, store)),
        _ => store,
    }
}
