//! Everything that is drawn, and nothing else: the screen is a pure function of this. How it changes with keys is in
//! `keys`; how it is filled from a client is in `present`.

use bluetick_client::Tick;
use bluetick_core::{ConversationId, MessageId, Seq};

use crate::composer::Composer;

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub colour: bool,
    /// Beyond ASCII.
    pub unicode: bool,
}

impl Look {
    pub const FULL: Look = Look { colour: true, unicode: true };
}

/// What keys go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    Inbox,
    /// The line above the inbox.
    Search,
    Composer,
}

/// One line of the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxLine {
    pub id: ConversationId,
    pub name: String,
    pub preview: String,
    /// Of the newest message, where it is one's own.
    pub tick: Option<Tick>,
    pub at: String,
    pub unread: u64,
    pub pinned: bool,
    pub muted: bool,
    pub archived: bool,
    pub online: bool,
    pub is_typing: bool,
}

/// Names what stands in a conversation, for scrolling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Stored(Seq),
    Waiting(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Somebody said something. `tick` is there for one's own.
    Said {
        who: String,
        own: bool,
        text: String,
        /// There is no content; the text says why.
        is_absent: bool,
        at: String,
        tick: Option<Tick>,
        problem: Option<String>,
    },
    Notice(String),
}

/// Something that stands in a conversation, with what is to be drawn above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: Key,
    /// A new day begins.
    pub day: Option<String>,
    /// What was not read when the conversation was opened begins.
    pub unread_begins: bool,
    /// The sender is not the one above.
    pub shows_name: bool,
    pub content: Content,
    /// To retry it or give it up.
    pub message_id: MessageId,
    pub failed: bool,
}

/// Which row is at the bottom of the view; `None` follows the newest message.
pub type Anchor = Option<(Key, usize)>;

/// The conversation on the right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chat {
    pub id: ConversationId,
    pub name: String,
    /// Who is there, who is typing, how many are in it.
    pub about: String,
    pub items: Vec<Item>,
    pub anchor: Anchor,
    /// Came in while the view stands further up.
    pub new_below: usize,
    pub reaches_start: bool,
    pub is_loading: bool,
}

/// A question in the middle of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    NewChat(NewChat),
    NewGroup { title: Composer, members: Composer, in_members: bool },
    Help,
    Leave,
}

/// With whom to begin a chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewChat {
    pub name: Composer,
    /// Their user_ids and what they are called.
    pub found: Vec<(String, String)>,
    /// The one of them that Enter takes; `None` is what is written, word for word.
    pub selected: Option<usize>,
    pub answer: Answer,
}

/// What the server said to what is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    #[default]
    Awaited,
    /// Nothing yet, and Enter was pressed: it counts when the answer is there.
    AwaitedByEnter,
    Here,
    /// It cannot look for people, and takes what is written.
    NoSearch,
    /// Nobody is called so, and the person has been told; Enter begins nevertheless.
    Nobody,
}

/// How the connection is, in words; nothing where all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Link {
    #[default]
    Online,
    /// Said at once.
    Waiting,
    /// After a while.
    Reconnecting,
    CatchingUp,
    LoggedOut,
    /// The token is somebody else's.
    OtherUser,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub look: Look,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    pub me: String,
    pub server: String,
    pub link: Link,
    pub inbox: Vec<InboxLine>,
    pub shows_archive: bool,
    pub unread_total: u64,
    /// The line the cursor is on.
    pub selected: Option<ConversationId>,
    pub search: Composer,
    pub focus: Focus,
    pub chat: Option<Chat>,
    pub composer: Composer,
    pub dialog: Option<Dialog>,
    /// One line for the person, until the next key.
    pub notice: Option<String>,
    /// Messages that wait to be sent, over all conversations.
    pub waiting: usize,
    /// Those that the server does not take.
    pub failed: usize,
}

/// Below this the inbox and the conversation take turns.
pub const NARROW: u16 = 60;

impl Model {
    pub fn new(me: &str, server: &str, look: Look, size: (u16, u16)) -> Model {
        Model {
            look,
            size,
            me: me.to_owned(),
            server: server.to_owned(),
            link: Link::Waiting,
            inbox: Vec::new(),
            shows_archive: false,
            unread_total: 0,
            selected: None,
            search: Composer::default(),
            focus: Focus::Inbox,
            chat: None,
            composer: Composer::default(),
            dialog: None,
            notice: None,
            waiting: 0,
            failed: 0,
        }
    }

    pub fn is_narrow(&self) -> bool {
        self.size.0 < NARROW
    }

    /// The lines that match what is searched for.
    pub fn lines(&self) -> Vec<&InboxLine> {
        let wanted = self.search.text().trim().to_lowercase();
        let matches = |line: &&InboxLine| {
            line.archived == self.shows_archive
                && (wanted.is_empty()
                    || line.name.to_lowercase().contains(&wanted)
                    || line.preview.to_lowercase().contains(&wanted))
        };
        self.inbox.iter().filter(matches).collect()
    }

    /// Where the cursor is among the lines that are shown.
    pub fn selected_at(&self) -> Option<usize> {
        let selected = self.selected?;
        self.lines().iter().position(|line| line.id == selected)
    }

    /// What keys do on the line the cursor is on.
    pub fn selected_line(&self) -> Option<&InboxLine> {
        let lines = self.lines();
        self.selected_at().and_then(|at| lines.get(at).copied())
    }
}
