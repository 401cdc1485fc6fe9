//! Commands for the committer, and the batch that collects their effects until it is durable.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bluetick_core::decide::{ChangeWithNotice, InitialState};
use bluetick_core::ports::{
    AddMembers, Append, Appended, NewConversation, OpenedConversation, Receipt, RemoveMember, SetPreferences,
    UserUpdate,
};
use bluetick_core::{
    ConversationId, ConversationWithMembers, MemberState, Preferences, Profile, ProfileUpdate, ReadState,
    Seq, Skeleton, StoreError, User, UserId,
};
use tokio::sync::oneshot;

use super::WritableConversation;
use crate::codec::chunk::Fingerprint;
use crate::codec::record;
use crate::log::BatchBuffer;
use crate::memory::ResidentConversation;

pub type ReplySender<T> = oneshot::Sender<Result<T, StoreError>>;

/// A command in the committer's queue.
///
/// Messages are stored inline: a box per message would be allocated by one thread and freed by
/// another, which costs more than moving the message. Rare or large commands are boxed.
pub enum CommitCommand {
    Append(AppendCommand),
    Receipt(Box<ReceiptCommand>),
    Control(Box<Control>),
}

/// Rare commands: conversations, members, users, preferences and profiles.
pub enum Control {
    Open {
        resident: Arc<ResidentConversation>,
        new: NewConversation,
        reply: ReplySender<OpenedConversation>,
    },
    Add {
        resident: Arc<ResidentConversation>,
        add: AddMembers,
        reply: ReplySender<ConversationWithMembers>,
    },
    Remove {
        resident: Arc<ResidentConversation>,
        remove: RemoveMember,
        reply: ReplySender<ConversationWithMembers>,
    },
    CreateUser {
        user: User,
        reply: ReplySender<()>,
    },
    ReserveName {
        user: User,
        reply: ReplySender<()>,
    },
    UpdateUser {
        update: UserUpdate,
        reply: ReplySender<()>,
    },
    SetPreferences {
        resident: Arc<ResidentConversation>,
        prefer: SetPreferences,
        reply: ReplySender<()>,
    },
    Profile {
        update: ProfileUpdate,
        reply: ReplySender<Profile>,
    },
}

pub struct ReceiptCommand {
    pub resident: Arc<ResidentConversation>,
    pub receipt: Receipt,
    pub reply: ReplySender<ReadState>,
}

pub struct AppendCommand {
    pub resident: WritableConversation,
    pub append: Append,
    pub fingerprint: Fingerprint,
    /// Present if the client marked the message as a resend.
    pub searched: Option<Box<DuplicateSearch>>,
    pub reply: ReplySender<Appended>,
}

/// The result of the duplicate search that runs before a resend is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateSearch {
    /// Seqs of durable messages with the same fingerprint.
    pub seqs: Vec<Seq>,
    /// The last seq that the search covered.
    pub through: Seq,
}

/// The state that a command depends on and may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CommandSubject {
    Conversation(ConversationId),
    /// One skeleton of a user id. Ids that look alike share at least one skeleton.
    Name(Skeleton),
    Profile(UserId),
}

/// Returns the subjects of a command that creates or changes `user`.
pub fn names_of(user: &UserId) -> impl Iterator<Item = CommandSubject> {
    Skeleton::all(user.as_str()).into_iter().map(CommandSubject::Name)
}

impl CommitCommand {
    /// Returns an estimate of the bytes that the command adds to a batch.
    pub fn weight(&self) -> usize {
        match self {
            CommitCommand::Append(command) => record::length_of(&command.append),
            CommitCommand::Receipt(command) => 64 + command.receipt.user.as_str().len(),
            CommitCommand::Control(_) => 1 << 10,
        }
    }

    /// Touches the memory that sequencing the command needs, so that the processor prefetches it.
    pub fn warm_up(&self) {
        if let CommitCommand::Append(command) = self {
            std::hint::black_box(command.resident.0.last_used());
            std::hint::black_box(command.append.sender.as_str().as_bytes().first().copied());
        }
    }

    /// Returns whether the command depends on one of `subjects`.
    pub fn depends_on(&self, subjects: &HashSet<CommandSubject>) -> bool {
        let conversation = |id| subjects.contains(&CommandSubject::Conversation(id));
        match self {
            CommitCommand::Append(command) => conversation(command.append.conversation),
            CommitCommand::Receipt(command) => conversation(command.receipt.conversation),
            CommitCommand::Control(control) => match &**control {
                Control::Open { new, .. } => conversation(new.id),
                Control::Add { add, .. } => conversation(add.conversation),
                Control::Remove { remove, .. } => conversation(remove.conversation),
                Control::CreateUser { user, .. } | Control::ReserveName { user, .. } => {
                    names_of(&user.id).any(|name| subjects.contains(&name))
                }
                Control::UpdateUser { update, .. } => {
                    names_of(&update.id).any(|name| subjects.contains(&name))
                }
                Control::SetPreferences { prefer, .. } => conversation(prefer.conversation),
                Control::Profile { update, .. } => {
                    subjects.contains(&CommandSubject::Profile(update.user.clone()))
                }
            },
        }
    }

    pub fn refuse(self, error: StoreError) {
        match self {
            CommitCommand::Append(command) => answer(command.reply, Err(error)),
            CommitCommand::Receipt(command) => answer(command.reply, Err(error)),
            CommitCommand::Control(control) => match *control {
                Control::Open { reply, .. } => answer(reply, Err(error)),
                Control::Add { reply, .. } | Control::Remove { reply, .. } => answer(reply, Err(error)),
                Control::CreateUser { reply, .. }
                | Control::ReserveName { reply, .. }
                | Control::UpdateUser { reply, .. }
                | Control::SetPreferences { reply, .. } => answer(reply, Err(error)),
                Control::Profile { reply, .. } => answer(reply, Err(error)),
            },
        }
    }
}

/// Sends the result. Ignores a caller that no longer waits for it.
pub fn answer<T>(reply: ReplySender<T>, result: Result<T, StoreError>) {
    drop(reply.send(result));
}

/// A message in a batch, with its allocated seq and the range of its record in the batch's buffer.
pub struct PlannedMessage {
    pub command: AppendCommand,
    pub seq: Seq,
    /// The index of the sender in the list of members. It stays valid until the message becomes
    /// visible: membership changes become visible after everything sequenced before them.
    pub member_index: usize,
    pub record: Range<usize>,
}

pub enum PlannedEffect {
    Message(PlannedMessage),
    /// A duplicate of a message earlier in this batch. It is answered once the batch is durable.
    Echo {
        appended: Appended,
        reply: ReplySender<Appended>,
    },
    Created {
        resident: Arc<ResidentConversation>,
        initial: Box<InitialState>,
        notice: Option<Range<usize>>,
        reply: ReplySender<OpenedConversation>,
    },
    Members {
        resident: Arc<ResidentConversation>,
        changes: Vec<(ChangeWithNotice, Range<usize>)>,
        reply: ReplySender<ConversationWithMembers>,
    },
    User {
        user: User,
        reply: ReplySender<()>,
    },
    /// `member_state` is a lower bound: the member's read state advances at least to it.
    Receipt {
        command: Box<ReceiptCommand>,
        member_state: MemberState,
    },
    PreferencesChanged {
        resident: Arc<ResidentConversation>,
        prefer: SetPreferences,
        preferences: Preferences,
        reply: ReplySender<()>,
    },
    Profile {
        user: UserId,
        profile: Profile,
        /// Whether the update revokes tokens that were valid before.
        revokes: bool,
        reply: ReplySender<Profile>,
    },
}

/// A batch that is being filled.
pub struct Batch {
    pub buffer: BatchBuffer,
    pub planned: Vec<PlannedEffect>,
    /// Subjects changed by this batch; the change becomes visible only when the batch is durable. A
    /// command that depends on one of them waits for the next batch, so no decision relies on a
    /// change that may still fail.
    pub unsettled: HashSet<CommandSubject>,
}

impl Batch {
    pub fn with_capacity(commands: usize, payload_bytes: usize) -> Batch {
        Batch {
            buffer: BatchBuffer::with_capacity(payload_bytes),
            planned: Vec::with_capacity(commands),
            unsettled: HashSet::new(),
        }
    }

    /// Returns the number of messages in the batch, including notices.
    pub fn messages(&self) -> usize {
        let of = |planned: &PlannedEffect| match planned {
            PlannedEffect::Message(_) => 1,
            PlannedEffect::Created { notice, .. } => usize::from(notice.is_some()),
            PlannedEffect::Members { changes, .. } => changes.len(),
            PlannedEffect::Echo { .. }
            | PlannedEffect::User { .. }
            | PlannedEffect::Receipt { .. }
            | PlannedEffect::PreferencesChanged { .. }
            | PlannedEffect::Profile { .. } => 0,
        };
        self.planned.iter().map(of).sum()
    }

    /// Returns the seqs of this batch's messages with this fingerprint.
    pub fn planned_seqs(&self, id: ConversationId, fingerprint: Fingerprint) -> impl Iterator<Item = Seq> {
        self.planned.iter().filter_map(move |planned| match planned {
            PlannedEffect::Message(PlannedMessage { command, seq, .. })
                if command.resident.0.id == id && command.fingerprint == fingerprint =>
            {
                Some(*seq)
            }
            _ => None,
        })
    }

    /// Returns the message that this batch stores at `seq`.
    pub fn planned_message(&self, id: ConversationId, seq: Seq) -> Option<&PlannedMessage> {
        self.planned.iter().rev().find_map(|planned| match planned {
            PlannedEffect::Message(message) if message.command.resident.0.id == id && message.seq == seq => {
                Some(message)
            }
            _ => None,
        })
    }
}
