//! The event loop of the terminal client. It copies the client's state into the model, turns keys
//! into actions, runs the actions, and draws at most thirty times a second.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bluetick_client::wire::bodies::{Person, SettingsChange};
use bluetick_client::{
    ApiError, Client, Conversation, Event as ChatEvent, OutboxItem, Phase, Tick, Watching,
};
use bluetick_types::time::{Clock, SystemClock};
use bluetick_types::{ConversationId, Seq, Timestamp, UserId};
use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use crate::calendar::Calendar;
use crate::composer::Composer;
use crate::draw::{chat_height, draw, rows};
use crate::keys::{self, Action};
use crate::model::{ChatPane, Focus, LinkStatus, ScreenModel, TerminalCapabilities};
use crate::present::{Words, refresh};
use crate::screen::Screen;
use crate::text::safe_line;

/// Minimum time between two redraws. A smaller value costs CPU time during bursts of changes.
const FRAME: Duration = Duration::from_millis(33);
/// Time without a connection after which the status line changes from "waiting for network" to
/// "reconnecting".
const WORTH_A_WORD: Duration = Duration::from_secs(5);

/// The result of a background task.
enum Done {
    /// A conversation was opened or created.
    Opened(Result<Conversation, ApiError>),
    /// A people search for this text.
    Found(String, Result<Vec<Person>, ApiError>),
    /// A page of history was loaded.
    Loaded(ConversationId, Result<(), ApiError>),
    /// Any other request. Only its error is shown.
    Tried(Result<(), ApiError>),
}

/// The running terminal client: the client, the model, and the background tasks.
pub struct TerminalApp {
    client: Arc<Client>,
    model: ScreenModel,
    calendar: Calendar,
    open: Option<OpenChat>,
    work: JoinSet<Done>,
    offline_since: Option<Instant>,
    /// Whether the terminal has the focus, as far as it reports that. Messages are marked as read
    /// only while it has.
    is_looked_at: bool,
    /// Whether to load older messages while the open chat does not fill the screen. Cleared after a
    /// failed load.
    wants_older: bool,
    /// Whether a people search is running.
    is_searching: bool,
    /// The latest search text entered while a search is running.
    next_search: Option<String>,
}

/// The open conversation.
struct OpenChat {
    conversation: Conversation,
    _watching: Watching,
    /// The read position when the conversation was opened, for the "new" divider. `Seq::MAX` hides
    /// the divider.
    unread_after: Option<Seq>,
}

impl TerminalApp {
    pub fn new(
        client: Client,
        server: &str,
        look: TerminalCapabilities,
        calendar: Calendar,
        size: (u16, u16),
    ) -> TerminalApp {
        let me = client.user().to_string();
        TerminalApp {
            model: ScreenModel::new(&safe_line(&me), &safe_line(server), look, size),
            client: Arc::new(client),
            calendar,
            open: None,
            work: JoinSet::new(),
            offline_since: Some(Instant::now()),
            is_looked_at: true,
            wants_older: false,
            is_searching: false,
            next_search: None,
        }
    }

    /// Runs until the user quits, the terminal closes, or the process gets SIGTERM or SIGHUP.
    /// Returns the client, so that the caller can stop it.
    pub async fn run(mut self, screen: &mut Screen) -> io::Result<Client> {
        let mut events = EventStream::new();
        let mut changes = self.client.changes();
        let mut happened = self.client.events();
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut terminated = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut drawn_at = Instant::now() - FRAME;
        let mut is_stale = true;
        loop {
            tokio::select! {
                event = events.next() => {
                    is_stale = true;
                    let Some(event) = event.transpose()? else { break };
                    if self.on_event(event).await {
                        break;
                    }
                }
                changed = changes.changed() => {
                    is_stale = true;
                    if changed.is_err() {
                        break;
                    }
                }
                event = happened.recv() => {
                    is_stale = true;
                    self.on_chat_event(event);
                }
                Some(done) = self.work.join_next(), if !self.work.is_empty() => {
                    is_stale = true;
                    if let Ok(done) = done {
                        for action in self.on_done(done) {
                            self.act(action).await;
                        }
                    }
                }
                _ = seconds.tick() => is_stale = true,
                _ = terminated.recv() => break,
                _ = hung_up.recv() => break,
                () = sleep_until(drawn_at + FRAME), if is_stale => {
                    is_stale = false;
                    drawn_at = Instant::now();
                    self.update();
                    screen.terminal.draw(|frame| draw(frame, &self.model))?;
                }
            }
        }
        self.work.shutdown().await;
        self.close();
        Arc::into_inner(self.client).ok_or_else(|| io::Error::other("the client is still in use"))
    }

    /// Copies the client's state into the model.
    fn update(&mut self) {
        let now = SystemClock.now();
        self.model.link = self.link();
        (self.model.waiting, self.model.failed) = (self.client.waiting(), self.client.failed());
        self.model.unread_total = self.client.unread_total();
        let client = &self.client;
        let name = |user: &UserId| client.name(user);
        let words = Words { user: client.user(), name: &name, calendar: &self.calendar, now };
        let inbox_summaries = [false, true].map(|archived| client.inbox_summaries(archived));
        let lines = inbox_summaries.iter().flatten().map(|glance| {
            // A failed message needs the user's attention, so it takes precedence over a queued
            // one.
            let failed = glance.failed.as_deref().map(|text| (text, Tick::Failed));
            let unsent = failed.or(glance.waiting.as_deref().map(|text| (text, Tick::Queued)));
            words.inbox_line(&glance.row, glance.is_online, glance.is_typing, unsent)
        });
        self.model.inbox = lines.collect();
        if self.model.selected_at().is_none() {
            self.model.selected = self.model.lines().first().map(|line| line.id);
        }
        self.update_chat(now);
    }

    /// Updates the open chat, marks visible messages as read, and loads older messages while the
    /// screen is not full.
    fn update_chat(&mut self, now: Timestamp) {
        let (Some(open), Some(chat)) = (&mut self.open, &mut self.model.chat) else { return };
        let view = open.conversation.view();
        let client = &self.client;
        let name = |user: &UserId| client.name(user);
        let words = Words { user: client.user(), name: &name, calendar: &self.calendar, now };
        if let Some(row) = &view.row {
            chat.name = words.title(row);
            open.unread_after.get_or_insert(row.entry.my_status.last_read_seq);
        }
        chat.about = words.about(&view);
        chat.reaches_start = view.window.reaches_start;
        refresh(chat, words.items(&view, open.unread_after.unwrap_or(Seq::MAX)));
        let is_at_newest = chat.anchor.is_none() && view.window.reaches_head;
        if is_at_newest && self.is_looked_at && view.row.as_ref().is_some_and(|row| row.entry.unread > 0) {
            open.conversation.mark_read(Some(view.window.to_seq));
        }
        let id = chat.id;
        let (is_loading, reaches_start, is_empty) =
            (chat.is_loading, chat.reaches_start, view.messages.is_empty());
        let Some(chat) = &self.model.chat else { return };
        let is_short = rows(&self.model, chat).len() < usize::from(chat_height(&self.model));
        if self.wants_older && is_short && !is_loading && !reaches_start && !is_empty && view.row.is_some() {
            self.load(id, PageLoad::Older);
        }
    }

    /// The connection state for the status line.
    fn link(&mut self) -> LinkStatus {
        let connection = self.client.connection();
        match connection.phase {
            Phase::LoggedOut => LinkStatus::LoggedOut,
            Phase::OtherUser => LinkStatus::OtherUser,
            Phase::Online => {
                self.offline_since = None;
                if connection.caught_up { LinkStatus::Online } else { LinkStatus::CatchingUp }
            }
            Phase::Offline | Phase::Connecting => {
                let since = *self.offline_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= WORTH_A_WORD { LinkStatus::Reconnecting } else { LinkStatus::Waiting }
            }
        }
    }

    /// Handles a terminal event. Returns `true` if the user quits.
    async fn on_event(&mut self, event: Event) -> bool {
        let actions = match event {
            Event::Key(key) => keys::key(&mut self.model, key),
            Event::Paste(text) => keys::paste(&mut self.model, &text),
            // Ignored, so that the terminal's own text selection works.
            Event::Mouse(_) => Vec::new(),
            Event::Resize(columns, rows) => {
                self.model.size = (columns, rows);
                Vec::new()
            }
            Event::FocusGained => {
                self.is_looked_at = true;
                Vec::new()
            }
            Event::FocusLost => {
                self.is_looked_at = false;
                Vec::new()
            }
        };
        for action in actions {
            if action == Action::Quit {
                return true;
            }
            self.act(action).await;
        }
        false
    }

    fn on_chat_event(&mut self, event: Result<ChatEvent, broadcast::error::RecvError>) {
        match event {
            Ok(ChatEvent::Trouble(text)) => self.model.notice = Some(safe_line(&text)),
            Ok(ChatEvent::Gone(id))
                if self.open.as_ref().is_some_and(|open| open.conversation.id() == id) =>
            {
                self.model.notice = Some("you are no longer a member of this chat".into());
            }
            Ok(ChatEvent::GivenUp(items)) => self.model.notice = Some(self.given_up(&items)),
            // The state already shows new messages and a logout.
            _ => {}
        }
    }

    fn given_up(&self, items: &[OutboxItem]) -> String {
        let id = items.first().map(|item| item.conversation_id);
        let line = self.model.inbox.iter().find(|line| Some(line.id) == id);
        let name = line.map_or("this conversation", |line| line.name.as_str());
        let what = match items.len() {
            1 => "1 message was not sent".to_owned(),
            count => format!("{count} messages were not sent"),
        };
        format!("{what}: you are no longer a member of {name}")
    }

    /// Runs one action.
    async fn act(&mut self, action: Action) {
        match action {
            Action::Quit => {}
            Action::Open(id) => self.open(self.client.conversation(id)),
            Action::Close => self.close(),
            Action::Send(id, text) => {
                let conversation = self.client.conversation(id);
                conversation.set_draft("");
                // Wait here, so that two messages keep their order. It takes one storage write.
                if let Err(error) = conversation.send(&text).await {
                    self.model.notice = Some(error.to_string());
                    self.model.composer = Composer::with(&text);
                } else if let Some(open) = &mut self.open {
                    open.unread_after = Some(Seq::MAX);
                }
            }
            Action::Typing(id) => self.client.conversation(id).typing(),
            Action::OpenDirect(name) => match name.parse::<UserId>() {
                Ok(user) => {
                    let client = Arc::clone(&self.client);
                    self.work.spawn(async move { Done::Opened(client.open_direct(&user).await) });
                }
                Err(invalid) => self.model.notice = Some(invalid.to_string()),
            },
            Action::CreateGroup(title, members) => {
                let members: Result<Vec<UserId>, _> = members.iter().map(|name| name.parse()).collect();
                match members {
                    Ok(members) => {
                        let client = Arc::clone(&self.client);
                        self.work
                            .spawn(async move { Done::Opened(client.create_group(&title, &members).await) });
                    }
                    Err(invalid) => self.model.notice = Some(invalid.to_string()),
                }
            }
            Action::Search(text) => self.search(text),
            Action::LoadOlder(id) => self.load(id, PageLoad::Older),
            Action::LoadNewer(id) => self.load(id, PageLoad::Newer),
            Action::LoadNewest(id) => self.load(id, PageLoad::Newest),
            Action::LoadMoreInbox => {
                if self.client.has_more(self.model.shows_archive) && self.work.is_empty() {
                    let (client, archived) = (Arc::clone(&self.client), self.model.shows_archive);
                    self.work.spawn(async move { Done::Tried(client.load_more(archived).await) });
                }
            }
            Action::Retry(id, message) => {
                self.client.conversation(id).retry(&message).await;
            }
            Action::Discard(id, message) => {
                if let Err(error) = self.client.conversation(id).cancel(&message).await {
                    self.model.notice = Some(error.to_string());
                }
            }
            Action::Pin(id, pinned) => {
                self.set(id, SettingsChange { pinned: Some(pinned), ..Default::default() })
            }
            Action::Mute(id, muted) => {
                self.set(id, SettingsChange { muted: Some(muted), ..Default::default() })
            }
            Action::Archive(id, archived) => {
                self.set(id, SettingsChange { archived: Some(archived), ..Default::default() });
            }
            Action::Leave(id) => {
                let conversation = self.client.conversation(id);
                self.work.spawn(async move { Done::Tried(conversation.leave().await) });
            }
        }
    }

    /// Searches for people. Runs one search at a time; text entered meanwhile replaces the pending
    /// one.
    fn search(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        if self.is_searching {
            self.next_search = Some(text);
            return;
        }
        self.is_searching = true;
        let client = Arc::clone(&self.client);
        self.work.spawn(async move {
            let found = client.search_people(text.trim()).await;
            Done::Found(text, found)
        });
    }

    fn set(&mut self, id: ConversationId, change: SettingsChange) {
        let conversation = self.client.conversation(id);
        self.work.spawn(async move { Done::Tried(conversation.change_settings(change).await) });
    }

    /// Opens a conversation: closes the previous one, restores the draft, and loads the newest
    /// page.
    fn open(&mut self, conversation: Conversation) {
        let id = conversation.id();
        if self.open.as_ref().is_some_and(|open| open.conversation.id() == id) {
            self.model.focus = Focus::Composer;
            return;
        }
        self.close();
        let watching = conversation.watch();
        self.model.composer = Composer::with(&conversation.draft());
        self.open = Some(OpenChat { conversation, _watching: watching, unread_after: None });
        self.model.focus = Focus::Composer;
        self.model.selected = Some(id);
        self.wants_older = true;
        self.model.chat = Some(ChatPane {
            id,
            name: String::new(),
            about: String::new(),
            items: Vec::new(),
            anchor: None,
            new_below: 0,
            reaches_start: false,
            is_loading: false,
        });
        self.load(id, PageLoad::Newest);
    }

    /// Closes the open conversation and saves its draft.
    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            open.conversation.set_draft(&self.model.composer.take());
        }
        self.model.chat = None;
    }

    fn load(&mut self, id: ConversationId, what: PageLoad) {
        if let Some(chat) = &mut self.model.chat {
            chat.is_loading = true;
        }
        let conversation = self.client.conversation(id);
        self.work.spawn(async move {
            let loaded = match what {
                PageLoad::Newest => conversation.load_newest().await,
                PageLoad::Older => conversation.load_older().await,
                PageLoad::Newer => conversation.load_newer().await,
            };
            Done::Loaded(id, loaded)
        });
    }

    /// Handles a finished background task. Returns actions that follow from it.
    fn on_done(&mut self, done: Done) -> Vec<Action> {
        match done {
            Done::Opened(Ok(conversation)) => self.open(conversation),
            Done::Found(asked, found) => {
                self.is_searching = false;
                if let Some(next) = self.next_search.take().filter(|next| *next != asked) {
                    self.search(next);
                }
                let shown = |person: Person| {
                    let shown = person.display_name.unwrap_or_else(|| person.user_id.to_string());
                    (person.user_id.to_string(), safe_line(&shown))
                };
                let people = found.ok().map(|people| people.into_iter().map(shown).collect());
                return keys::found(&mut self.model, &asked, people);
            }
            Done::Loaded(id, loaded) => {
                if let Some(chat) = self.model.chat.as_mut().filter(|chat| chat.id == id) {
                    chat.is_loading = false;
                }
                // The status line already reports a lost connection. The next scroll key tries
                // again.
                if let Err(error) = loaded {
                    self.wants_older = false;
                    if !matches!(error, ApiError::Unreachable(_)) {
                        self.model.notice = Some(safe_line(&error.to_string()));
                    }
                }
            }
            Done::Tried(Ok(())) => {}
            Done::Opened(Err(error)) | Done::Tried(Err(error)) => {
                self.model.notice = Some(safe_line(&error.to_string()));
            }
        }
        Vec::new()
    }
}

#[derive(Clone, Copy)]
enum PageLoad {
    Newest,
    Older,
    Newer,
}
