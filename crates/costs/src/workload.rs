//! The three paths whose costs are stored, each with a small fixed workload. Sends and requests are
//! deterministic. A round ends when the clients have received everything in it.

use bluetick_core::ConversationId;
use bluetick_core::ports::Creation;
use serde_json::json;

use crate::device::{Device, frame};
use crate::seed::{TEXT, directory, message_id, person, seed};
use crate::world::MeasuredServer;

/// Number of uncounted rounds. They load the conversations and fill the reused buffers.
const WARM_UP_ROUNDS: usize = 2;
/// Number of counted rounds.
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Pairs of users. The sender sends messages and receives acks; the peer receives the messages
    /// and sends `delivered`, which the sender receives as `status`.
    Send,
    /// A group with all members online: from a received message to the sockets of all members.
    Deliver,
    /// The newest page of conversations that are in the tables, over HTTP.
    History,
}

impl Path {
    /// Every path, in the order of the output.
    pub const ALL: [Path; 3] = [Path::Send, Path::Deliver, Path::History];

    pub fn name(self) -> &'static str {
        match self {
            Path::Send => "send",
            Path::Deliver => "deliver",
            Path::History => "history",
        }
    }

    pub fn named(name: &str) -> Option<Path> {
        Path::ALL.into_iter().find(|path| path.name() == name)
    }

    /// Returns the unit that the costs are divided by.
    pub fn unit(self) -> &'static str {
        match self {
            Path::Send => "message",
            Path::Deliver => "delivery",
            Path::History => "page",
        }
    }

    /// Prepares the workload and runs the warm-up rounds.
    pub fn rehearse(self) -> Rehearsed {
        let rounds = WARM_UP_ROUNDS + ROUNDS;
        let (world, cast): (MeasuredServer, Box<dyn Cast>) = match self {
            Path::Send => Pairs::gather(rounds),
            Path::Deliver => Group::gather(rounds),
            Path::History => PageReaders::gather(),
        };
        let mut rehearsed = Rehearsed { world, cast, next_round: 0 };
        for _ in 0..WARM_UP_ROUNDS {
            rehearsed.play_round();
        }
        rehearsed
    }
}

/// A path with a prepared workload that is ready to be counted.
pub struct Rehearsed {
    world: MeasuredServer,
    cast: Box<dyn Cast>,
    next_round: usize,
}

impl Rehearsed {
    /// Runs the counted rounds.
    pub fn perform(&mut self) {
        for _ in 0..ROUNDS {
            self.play_round();
        }
    }

    /// Returns the number of messages, deliveries or pages in the counted rounds.
    pub fn units(&self) -> usize {
        ROUNDS * self.cast.units_in_round()
    }

    /// Returns the number of frames that the server writes to WebSockets in the counted rounds.
    pub fn frames(&self) -> usize {
        ROUNDS * self.cast.frames_in_round()
    }

    pub fn end(self) {
        drop(self.cast);
        self.world.stop();
    }

    fn play_round(&mut self) {
        self.cast.play(self.next_round);
        self.next_round += 1;
    }
}

trait Cast {
    fn play(&mut self, round: usize);
    fn units_in_round(&self) -> usize;
    fn frames_in_round(&self) -> usize;
}

/// The encoded bytes that one client sends in each round.
struct Lines(Vec<Vec<u8>>);

impl Lines {
    /// Encodes `window` messages per round.
    fn sends(conversation: ConversationId, speaker: usize, rounds: usize, window: usize) -> Lines {
        let conversation_id = conversation.to_string();
        let send = |number: usize| {
            let message_id = message_id(speaker << 32 | number).to_string();
            let send = json!({
                "type": "send", "conversation_id": conversation_id, "message_id": message_id,
                "content": TEXT, "timestamp": 1_767_225_600_000i64,
            });
            frame(&send.to_string())
        };
        let round = |round| (round * window..(round + 1) * window).flat_map(send).collect();
        Lines((0..rounds).map(round).collect())
    }

    /// Encodes one `delivered` per round that covers all messages of the round. The conversation
    /// must have no other messages.
    fn delivered(conversation: ConversationId, rounds: usize, window: usize) -> Lines {
        let conversation_id = conversation.to_string();
        let mark = |round| {
            let seq = (round + 1) * window;
            frame(&json!({"type": "delivered", "conversation_id": conversation_id, "seq": seq}).to_string())
        };
        Lines((0..rounds).map(mark).collect())
    }
}

struct Pairs(Vec<DevicePair>);

struct DevicePair {
    sender: Device,
    receiver: Device,
    sends: Lines,
    delivered: Lines,
}

impl Pairs {
    /// Number of direct conversations, each with its own two connections.
    const COUNT: usize = 20;
    /// Number of messages per pair and round. The receiver acknowledges them with one `delivered`.
    const WINDOW: usize = 20;

    fn gather(rounds: usize) -> (MeasuredServer, Box<dyn Cast>) {
        let data_dir = directory();
        let people = |number| (person("sender", number), person("receiver", number));
        let conversation = |number| {
            let (sender, peer) = people(number);
            (ConversationId::direct(&sender, &peer), sender, Creation::Direct { peer })
        };
        seed(data_dir.path(), (0..Pairs::COUNT).map(conversation).collect(), 0);
        let world = MeasuredServer::start(data_dir);
        let pair = |number| {
            let (sender, receiver) = people(number);
            let conversation = ConversationId::direct(&sender, &receiver);
            DevicePair {
                sender: Device::greet(world.address, &world.token(&sender)),
                receiver: Device::greet(world.address, &world.token(&receiver)),
                sends: Lines::sends(conversation, number, rounds, Pairs::WINDOW),
                delivered: Lines::delivered(conversation, rounds, Pairs::WINDOW),
            }
        };
        let pairs = Pairs((0..Pairs::COUNT).map(pair).collect());
        (world, Box::new(pairs))
    }
}

impl Cast for Pairs {
    fn play(&mut self, round: usize) {
        for pair in &mut self.0 {
            pair.sender.say(&pair.sends.0[round]);
        }
        for pair in &mut self.0 {
            pair.sender.hear(&[("ack", Pairs::WINDOW)]);
            pair.receiver.hear(&[("message", Pairs::WINDOW)]);
        }
        for pair in &mut self.0 {
            pair.receiver.say(&pair.delivered.0[round]);
        }
        for pair in &mut self.0 {
            pair.sender.hear(&[("status", 1)]);
        }
    }

    fn units_in_round(&self) -> usize {
        Pairs::COUNT * Pairs::WINDOW
    }

    fn frames_in_round(&self) -> usize {
        Pairs::COUNT * (2 * Pairs::WINDOW + 1)
    }
}

struct Group {
    /// The connections of all members, senders first.
    members: Vec<Device>,
    sends: Vec<Lines>,
}

impl Group {
    /// Number of members, each with one connection.
    const MEMBERS: usize = 50;
    /// Number of members that send. The others only receive.
    const SENDERS: usize = 5;
    /// Messages per sender and round.
    const WINDOW: usize = 8;

    fn gather(rounds: usize) -> (MeasuredServer, Box<dyn Cast>) {
        let data_dir = directory();
        let id = ConversationId::group([7; 15]);
        let member = |number| person("member", number);
        let title = "Everybody".parse().expect("the title is valid");
        let creation = Creation::Group { title, members: (1..Group::MEMBERS).map(member).collect() };
        seed(data_dir.path(), vec![(id, member(0), creation)], 0);
        let world = MeasuredServer::start(data_dir);
        let device = |number| Device::greet(world.address, &world.token(&member(number)));
        let members = (0..Group::MEMBERS).map(device).collect();
        let sends = |number| Lines::sends(id, number, rounds, Group::WINDOW);
        let group = Group { members, sends: (0..Group::SENDERS).map(sends).collect() };
        (world, Box::new(group))
    }
}

impl Cast for Group {
    fn play(&mut self, round: usize) {
        for (device, sends) in self.members.iter_mut().zip(&self.sends) {
            device.say(&sends.0[round]);
        }
        let said = Group::SENDERS * Group::WINDOW;
        for (number, device) in self.members.iter_mut().enumerate() {
            // A sender receives acks instead of its own messages.
            let own = if number < Group::SENDERS { Group::WINDOW } else { 0 };
            device.hear(&[("ack", own), ("message", said - own)]);
        }
    }

    fn units_in_round(&self) -> usize {
        Group::SENDERS * Group::WINDOW * (Group::MEMBERS - 1)
    }

    fn frames_in_round(&self) -> usize {
        Group::SENDERS * Group::WINDOW * Group::MEMBERS
    }
}

struct PageReaders {
    device: Device,
    requests: Vec<Vec<u8>>,
}

impl PageReaders {
    /// Number of conversations, one page of each per round.
    const CONVERSATIONS: usize = 100;
    /// Messages per conversation. It must exceed the page size.
    const MESSAGES: usize = 100;

    fn gather() -> (MeasuredServer, Box<dyn Cast>) {
        let data_dir = directory();
        let reader = person("reader", 0);
        let writer = |number| person("writer", number);
        let id = |number| ConversationId::direct(&writer(number), &reader);
        let conversation = |number| (id(number), writer(number), Creation::Direct { peer: reader.clone() });
        seed(
            data_dir.path(),
            (0..PageReaders::CONVERSATIONS).map(conversation).collect(),
            PageReaders::MESSAGES,
        );
        let world = MeasuredServer::start(data_dir);
        let token = world.token(&reader);
        let request = |number| {
            format!(
                "GET /v1/conversations/{}/messages?limit=20 HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n\r\n",
                id(number),
                world.address
            )
            .into_bytes()
        };
        let requests = (0..PageReaders::CONVERSATIONS).map(request).collect();
        let device = Device::caller(world.address);
        (world, Box::new(PageReaders { device, requests }))
    }
}

impl Cast for PageReaders {
    fn play(&mut self, _round: usize) {
        for request in &self.requests {
            let page = self.device.ask(request);
            // Check only that the page has twenty texts. Other tests cover the content of pages.
            assert!(page.len() > 20 * TEXT.len());
        }
    }

    fn units_in_round(&self) -> usize {
        PageReaders::CONVERSATIONS
    }

    fn frames_in_round(&self) -> usize {
        0
    }
}
