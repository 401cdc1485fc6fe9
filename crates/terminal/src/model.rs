//! The model: everything that is drawn. The screen is a pure function of it. `keys` changes it on
//! key presses; `present` fills it from the client.

use bluetick_client::Tick;
use bluetick_types::{ConversationId, MessageId, Seq};

use crate::composer::Composer;

/// The capabilities of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalCapabilities {
    pub colour: bool,
    /// Whether non-ASCII symbols can be shown.
    pub unicode: bool,
}

impl TerminalCapabilities {
    /// A terminal with colours and Unicode.
    pub const FULL: TerminalCapabilities = TerminalCapabilities { colour: true, unicode: true };
}

/// The part of the screen that receives keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    #[default]
    Inbox,
    /// The search input above the inbox.
    Search,
    Composer,
}

/// One row of the inbox, as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxLine {
    pub id: ConversationId,
    pub name: String,
    pub preview: String,
    /// Tick of the newest message, if this user sent it.
    pub tick: Option<Tick>,
    pub at: String,
    pub unread: u64,
    pub pinned: bool,
    pub muted: bool,
    pub archived: bool,
    pub online: bool,
    pub is_typing: bool,
}

/// Identifies an item of a conversation, for scrolling. The order matters: stored items sort before
/// waiting ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKey {
    /// A stored message.
    Stored(Seq),
    /// An outbox item, by its number.
    Waiting(u64),
}

/// The content of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A message. `tick` is set for this user's own messages.
    Said {
        who: String,
        own: bool,
        text: String,
        /// The content is deleted or unreadable; `text` says why.
        is_absent: bool,
        at: String,
        tick: Option<Tick>,
        /// Why the server refused the message.
        problem: Option<String>,
    },
    /// A group event.
    Notice(String),
}

/// An item of a conversation, with the dividers above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub key: ItemKey,
    /// Text of the day divider, if a new day begins here.
    pub day: Option<String>,
    /// Whether the "new" divider is above this item: it is the first message that was unread on
    /// opening.
    pub unread_begins: bool,
    /// Whether to show the sender's name: only in groups, when the sender differs from the item
    /// above.
    pub shows_name: bool,
    pub content: Content,
    /// For retrying or discarding a failed message.
    pub message_id: MessageId,
    pub failed: bool,
}

/// The row at the bottom of the view, as item and row within it. `None` follows the newest message.
pub type Anchor = Option<(ItemKey, usize)>;

/// The open conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatPane {
    pub id: ConversationId,
    pub name: String,
    /// The line below the name: typing, presence, or the number of members.
    pub about: String,
    pub items: Vec<Item>,
    pub anchor: Anchor,
    /// Number of messages that arrived below the view while it is scrolled up.
    pub new_below: usize,
    pub reaches_start: bool,
    pub is_loading: bool,
}

/// A dialog in the middle of the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dialog {
    NewChat(NewChat),
    NewGroup { title: Composer, members: Composer, in_members: bool },
    Help,
    Leave,
}

/// The dialog for a new direct chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewChat {
    pub name: Composer,
    /// Search results: user ids and display names.
    pub found: Vec<(String, String)>,
    /// Index of the result that Enter opens. `None` uses the typed text as a user id.
    pub selected: Option<usize>,
    pub answer: SearchState,
}

/// The state of the people search for the typed text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SearchState {
    /// No answer yet.
    #[default]
    Awaited,
    /// No answer yet, but Enter was pressed. Enter is repeated when the answer arrives.
    AwaitedByEnter,
    /// The answer has arrived.
    Here,
    /// The search failed or is not supported. Enter uses the typed text as a user id.
    NoSearch,
    /// No user matches, and the dialog says so. A second Enter starts the chat anyway.
    NotFound,
}

/// The connection state for the status line. `Online` shows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkStatus {
    #[default]
    Online,
    /// Not connected for a short time.
    Waiting,
    /// Not connected for at least 5 seconds.
    Reconnecting,
    CatchingUp,
    LoggedOut,
    /// The token belongs to another user.
    OtherUser,
}

/// Everything that is drawn.
#[derive(Clone, Debug)]
pub struct ScreenModel {
    pub look: TerminalCapabilities,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    pub me: String,
    pub server: String,
    pub link: LinkStatus,
    pub inbox: Vec<InboxLine>,
    pub shows_archive: bool,
    pub unread_total: u64,
    /// The selected row of the inbox.
    pub selected: Option<ConversationId>,
    pub search: Composer,
    pub focus: Focus,
    pub chat: Option<ChatPane>,
    pub composer: Composer,
    pub dialog: Option<Dialog>,
    /// A message for the user in the status line. The next key or paste clears it.
    pub notice: Option<String>,
    /// Number of queued and in-flight messages in all conversations.
    pub waiting: usize,
    /// Number of messages that the server refused permanently.
    pub failed: usize,
}

/// Terminal width in columns below which only the inbox or the conversation is shown, not both.
pub const NARROW: u16 = 60;

impl ScreenModel {
    pub fn new(me: &str, server: &str, look: TerminalCapabilities, size: (u16, u16)) -> ScreenModel {
        ScreenModel {
            look,
            size,
            me: me.to_owned(),
            server: server.to_owned(),
            link: LinkStatus::Waiting,
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

    /// The inbox or archive rows that match the search text.
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

    /// Index of the selected row among the shown rows. `None` if it is not shown.
    pub fn selected_at(&self) -> Option<usize> {
        let selected = self.selected?;
        self.lines().iter().position(|line| line.id == selected)
    }

    /// The selected row, if it is shown.
    pub fn selected_line(&self) -> Option<&InboxLine> {
        let lines = self.lines();
        self.selected_at().and_then(|at| lines.get(at).copied())
    }
}
