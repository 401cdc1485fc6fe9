//! What is asked for, and what will be true once the batch is durable.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use bluetick_core::decide::{Founding, NotedChange};
use bluetick_core::ports::{
    AddMembers, Append, Appended, Mark, NewConversation, Opened, Prefer, RemoveMember, UserUpdate,
};
use bluetick_core::{
    Boundaries, ConversationId, ConversationView, Preferences, Profile, ProfileUpdate, Seq, Skeleton,
    Standing, StoreError, User, UserId,
};
use tokio::sync::oneshot;

use super::WritableRoom;
use crate::codec::chunk::Fingerprint;
use crate::codec::record;
use crate::log::BatchBuffer;
use crate::memory::Room;

pub type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Messages wait in the queue itself: a box of its own for each would be made by one thread and freed by another,
/// which costs an allocator more than moving the message does. What is rare or as large is boxed.
pub enum Command {
    Append(AppendCommand),
    Mark(Box<MarkCommand>),
    Control(Box<Control>),
}

/// Everything that is rare.
pub enum Control {
    Open { room: Arc<Room>, new: NewConversation, reply: Reply<Opened> },
    Add { room: Arc<Room>, add: AddMembers, reply: Reply<ConversationView> },
    Remove { room: Arc<Room>, remove: RemoveMember, reply: Reply<ConversationView> },
    CreateUser { user: User, reply: Reply<()> },
    ReserveName { user: User, reply: Reply<()> },
    UpdateUser { update: UserUpdate, reply: Reply<()> },
    Prefer { room: Arc<Room>, prefer: Prefer, reply: Reply<()> },
    Profile { update: ProfileUpdate, reply: Reply<Profile> },
}

pub struct MarkCommand {
    pub room: Arc<Room>,
    pub mark: Mark,
    pub reply: Reply<Boundaries>,
}

pub struct AppendCommand {
    pub room: WritableRoom,
    pub append: Append,
    pub fingerprint: Fingerprint,
    /// Present for a message that its sender marks as a resend.
    pub searched: Option<Box<Searched>>,
    pub reply: Reply<Appended>,
}

/// The result of the search for duplicates, made before the message was queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Seqs of durable messages with the same fingerprint.
    pub places: Vec<Seq>,
    /// The last seq that was searched.
    pub through: Seq,
}

/// What a command depends on and may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Conversation(ConversationId),
    /// One skeleton of a user's id. Ids that look alike share at least one.
    Name(Skeleton),
    Profile(UserId),
}

/// The subjects of a command that creates or changes this user.
pub fn names_of(user: &UserId) -> impl Iterator<Item = Subject> {
    Skeleton::all(user.as_str()).into_iter().map(Subject::Name)
}

impl Command {
    /// About how many bytes it adds to a batch.
    pub fn weight(&self) -> usize {
        match self {
            Command::Append(command) => record::length_of(&command.append),
            Command::Mark(command) => 64 + command.mark.user.as_str().len(),
            Command::Control(_) => 1 << 10,
        }
    }

    /// Has what it needs fetched into the cache, without waiting for it.
    pub fn warm_up(&self) {
        if let Command::Append(command) = self {
            std::hint::black_box(command.room.0.last_used());
            std::hint::black_box(command.append.sender.as_str().as_bytes().first().copied());
        }
    }

    /// Whether the command depends on one of these subjects.
    pub fn depends_on(&self, subjects: &HashSet<Subject>) -> bool {
        let conversation = |id| subjects.contains(&Subject::Conversation(id));
        match self {
            Command::Append(command) => conversation(command.append.conversation),
            Command::Mark(command) => conversation(command.mark.conversation),
            Command::Control(control) => match &**control {
                Control::Open { new, .. } => conversation(new.id),
                Control::Add { add, .. } => conversation(add.conversation),
                Control::Remove { remove, .. } => conversation(remove.conversation),
                Control::CreateUser { user, .. } | Control::ReserveName { user, .. } => {
                    names_of(&user.id).any(|name| subjects.contains(&name))
                }
                Control::UpdateUser { update, .. } => {
                    names_of(&update.id).any(|name| subjects.contains(&name))
                }
                Control::Prefer { prefer, .. } => conversation(prefer.conversation),
                Control::Profile { update, .. } => subjects.contains(&Subject::Profile(update.user.clone())),
            },
        }
    }

    pub fn refuse(self, error: StoreError) {
        match self {
            Command::Append(command) => answer(command.reply, Err(error)),
            Command::Mark(command) => answer(command.reply, Err(error)),
            Command::Control(control) => match *control {
                Control::Open { reply, .. } => answer(reply, Err(error)),
                Control::Add { reply, .. } | Control::Remove { reply, .. } => answer(reply, Err(error)),
                Control::CreateUser { reply, .. }
                | Control::ReserveName { reply, .. }
                | Control::UpdateUser { reply, .. }
                | Control::Prefer { reply, .. } => answer(reply, Err(error)),
                Control::Profile { reply, .. } => answer(reply, Err(error)),
            },
        }
    }
}

/// The asker may have gone; then nobody wants to know.
pub fn answer<T>(reply: Reply<T>, result: Result<T, StoreError>) {
    drop(reply.send(result));
}

/// A message on its way, with its place in the conversation and that of its record in the batch.
pub struct PlannedMessage {
    pub command: AppendCommand,
    pub seq: Seq,
    /// Where the sender is among the members. It stays true until the message is shown: a change of membership is
    /// shown after whatever was sequenced before it.
    pub seat: usize,
    pub record: Range<usize>,
}

pub enum Planned {
    Message(PlannedMessage),
    /// The same message as one earlier in this batch.
    Echo {
        appended: Appended,
        reply: Reply<Appended>,
    },
    Founded {
        room: Arc<Room>,
        founding: Box<Founding>,
        notice: Option<Range<usize>>,
        reply: Reply<Opened>,
    },
    Members {
        room: Arc<Room>,
        changes: Vec<(NotedChange, Range<usize>)>,
        reply: Reply<ConversationView>,
    },
    User {
        user: User,
        reply: Reply<()>,
    },
    /// The member stands at least here.
    Mark {
        command: Box<MarkCommand>,
        standing: Standing,
    },
    Preferred {
        room: Arc<Room>,
        prefer: Prefer,
        preferences: Preferences,
        reply: Reply<()>,
    },
    Profile {
        user: UserId,
        profile: Profile,
        /// Tokens are void that were not before.
        revokes: bool,
        reply: Reply<Profile>,
    },
}

/// A batch while it fills.
pub struct Batch {
    pub buffer: BatchBuffer,
    pub planned: Vec<Planned>,
    /// Changed by this batch in a way that only shows once it is durable. A command about one of these has to wait
    /// for the next batch, so that nothing is ever decided on what may yet be refused.
    pub unsettled: HashSet<Subject>,
}

impl Batch {
    pub fn with_capacity(commands: usize, payload_bytes: usize) -> Batch {
        Batch {
            buffer: BatchBuffer::with_capacity(payload_bytes),
            planned: Vec::with_capacity(commands),
            unsettled: HashSet::new(),
        }
    }

    /// How many messages it stores, notices included.
    pub fn messages(&self) -> usize {
        let of = |planned: &Planned| match planned {
            Planned::Message(_) => 1,
            Planned::Founded { notice, .. } => usize::from(notice.is_some()),
            Planned::Members { changes, .. } => changes.len(),
            Planned::Echo { .. }
            | Planned::User { .. }
            | Planned::Mark { .. }
            | Planned::Preferred { .. }
            | Planned::Profile { .. } => 0,
        };
        self.planned.iter().map(of).sum()
    }

    /// Seqs of the messages in this batch with this fingerprint.
    pub fn planned_places(&self, id: ConversationId, fingerprint: Fingerprint) -> impl Iterator<Item = Seq> {
        self.planned.iter().filter_map(move |planned| match planned {
            Planned::Message(PlannedMessage { command, seq, .. })
                if command.room.0.id == id && command.fingerprint == fingerprint =>
            {
                Some(*seq)
            }
            _ => None,
        })
    }

    /// The message this batch puts at `seq`.
    pub fn planned_message(&self, id: ConversationId, seq: Seq) -> Option<&PlannedMessage> {
        self.planned.iter().rev().find_map(|planned| match planned {
            Planned::Message(message) if message.command.room.0.id == id && message.seq == seq => {
                Some(message)
            }
            _ => None,
        })
    }
}
