//! Mutual authentication of a new connection by the fleet key.
//!
//! Four messages, each with its length (2 bytes) in front:
//!
//! 1. client → server, hello: label, nonce, boot id and node id of the client, expected node id
//! 2. server → client, challenge: nonce, boot id and node id of the server
//! 3. client → server: HMAC-SHA256(fleet key, "client proof" ‖ transcript)
//! 4. server → client: HMAC-SHA256(fleet key, "server proof" ‖ transcript)
//!
//! The transcript is the exact bytes of messages 1 and 2, with their lengths. The keys of the
//! frames are HMACs of the same transcript under two more labels. No other frame is accepted before
//! both proofs, and the server reveals nothing under the key before it has checked the client's
//! proof.
//!
//! Why it is sound, with HMAC-SHA256 as a pseudorandom function: a proof is computable only with
//! the key. It fits one transcript, which contains a fresh nonce of the side that checks it, so a
//! recorded proof does not fit (replay). Both sides use different labels, and a node refuses its
//! own id as a client, so a proof does not fit in the other direction (reflection). The transcript
//! names both nodes and boots, so a proof made for one server does not fit at another. A relay can
//! only pass messages on: it does not learn the keys of the frames. There is no forward secrecy:
//! TLS adds it.

use bluetick_core::ports::Random;
use ring::hmac;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::frame::{ConnectionError, FrameCipher};
use crate::NodeId;
use crate::cluster::fleet_key::FleetKey;
use crate::cluster::{BootId, NodeIdentity};

/// Names the protocol and its version. Another version fails here.
const LABEL: &[u8] = b"bluetick cluster 1";

const NONCE: usize = 32;

/// Upper bound on a message of the handshake in bytes, and so on what a client without the key can
/// make a server store. Must hold two node ids, which are keys of rows with at most 1,024 bytes.
const MAX_MESSAGE: usize = 4_096;

/// An authenticated connection: the other node and the two directions.
pub(super) struct AuthenticatedPeer {
    pub identity: NodeIdentity,
    pub sender: FrameCipher,
    pub receiver: FrameCipher,
}

/// The identity and the key that a node uses in handshakes.
pub(super) struct Credentials {
    identity: NodeIdentity,
    key: hmac::Key,
}

impl Credentials {
    pub fn new(identity: NodeIdentity, key: &FleetKey) -> Credentials {
        Credentials { identity, key: hmac::Key::new(hmac::HMAC_SHA256, key.bytes()) }
    }

    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Authenticates a connection that this node has opened to `expected`.
    pub async fn connect<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: &mut Io,
        expected: &NodeId,
        random: &dyn Random,
    ) -> Result<AuthenticatedPeer, ConnectionError> {
        let mut hello = self.introduction(random);
        hello.splice(..0, LABEL.iter().copied());
        put_id(&mut hello, expected);
        send(io, &hello).await?;

        let challenge = receive(io).await?;
        let mut fields = Fields(&challenge);
        let identity = fields.introduction()?;
        fields.end()?;
        if identity.node != *expected {
            return Err(ConnectionError::Handshake("another node listens at this address"));
        }
        let transcript = Transcript::new(&self.key, &hello, &challenge);
        send(io, transcript.hmac("client proof").as_ref()).await?;
        transcript.check("server proof", &receive(io).await?)?;
        Ok(transcript.peer(identity, "client frames", "server frames"))
    }

    /// Authenticates a client. The server must call [`PendingAccept::accept`] before it uses the
    /// connection.
    pub async fn challenge<Io: AsyncRead + AsyncWrite + Unpin>(
        &self,
        io: &mut Io,
        random: &dyn Random,
    ) -> Result<PendingAccept, ConnectionError> {
        let hello = receive(io).await?;
        let mut fields = Fields(&hello);
        if fields.take(LABEL.len())? != LABEL {
            return Err(ConnectionError::Handshake("another protocol or version"));
        }
        let identity = fields.introduction()?;
        let expected = fields.id()?;
        fields.end()?;
        if expected != self.identity.node || identity.node == self.identity.node {
            return Err(ConnectionError::Handshake("the client expects another node"));
        }
        let challenge = self.introduction(random);
        send(io, &challenge).await?;

        let transcript = Transcript::new(&self.key, &hello, &challenge);
        transcript.check("client proof", &receive(io).await?)?;
        let proof = transcript.hmac("server proof");
        Ok(PendingAccept { proof, peer: transcript.peer(identity, "server frames", "client frames") })
    }

    /// A fresh nonce, the boot id and the node id.
    fn introduction(&self, random: &dyn Random) -> Vec<u8> {
        let mut nonce = [0; NONCE];
        random.fill(&mut nonce);
        let mut message = [&nonce[..], &self.identity.boot.to_bytes()].concat();
        put_id(&mut message, &self.identity.node);
        message
    }
}

/// A client that has proved that it has the key, and waits for the proof of the server.
pub(super) struct PendingAccept {
    proof: hmac::Tag,
    pub peer: AuthenticatedPeer,
}

impl PendingAccept {
    /// Sends the server's proof. The client may send frames from now on.
    pub async fn accept(
        self,
        io: &mut (impl AsyncWrite + Unpin),
    ) -> Result<AuthenticatedPeer, ConnectionError> {
        send(io, self.proof.as_ref()).await?;
        Ok(self.peer)
    }
}

/// The pseudorandom function of one handshake.
struct Transcript<'a> {
    key: &'a hmac::Key,
    bytes: Vec<u8>,
}

impl Transcript<'_> {
    fn new<'a>(key: &'a hmac::Key, hello: &[u8], challenge: &[u8]) -> Transcript<'a> {
        let mut bytes = Vec::new();
        for message in [hello, challenge] {
            bytes.extend(length(message));
            bytes.extend(message);
        }
        Transcript { key, bytes }
    }

    /// Labels have no zero byte, so no two pairs of label and transcript give the same bytes.
    fn message(&self, label: &str) -> Vec<u8> {
        [LABEL, b" ", label.as_bytes(), b"\0", &self.bytes].concat()
    }

    fn hmac(&self, label: &str) -> hmac::Tag {
        hmac::sign(self.key, &self.message(label))
    }

    /// Compares in constant time.
    fn check(&self, label: &str, proof: &[u8]) -> Result<(), ConnectionError> {
        let is_valid = hmac::verify(self.key, &self.message(label), proof).is_ok();
        if is_valid {
            Ok(())
        } else {
            Err(ConnectionError::Handshake("the other node has another fleet key"))
        }
    }

    fn peer(&self, identity: NodeIdentity, send: &str, receive: &str) -> AuthenticatedPeer {
        let cipher = |label| {
            let key = self.hmac(label);
            FrameCipher::new(key.as_ref().try_into().expect("HMAC-SHA256 has 32 bytes"))
        };
        AuthenticatedPeer { identity, sender: cipher(send), receiver: cipher(receive) }
    }
}

/// The fields of a message that are still to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], ConnectionError> {
        let (taken, rest) =
            self.0.split_at_checked(length).ok_or(ConnectionError::Handshake("a message is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn id(&mut self) -> Result<NodeId, ConnectionError> {
        let length = self.take(2)?.try_into().expect("2 bytes");
        let text = std::str::from_utf8(self.take(u16::from_be_bytes(length).into())?);
        text.map(NodeId::new).map_err(|_| ConnectionError::Handshake("a node id is no text"))
    }

    fn introduction(&mut self) -> Result<NodeIdentity, ConnectionError> {
        self.take(NONCE)?;
        let boot = BootId::from_bytes(self.take(16)?.try_into().expect("16 bytes"));
        Ok(NodeIdentity { node: self.id()?, boot })
    }

    fn end(self) -> Result<(), ConnectionError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConnectionError::Handshake("a message is too long")) }
    }
}

fn length(bytes: &[u8]) -> [u8; 2] {
    u16::try_from(bytes.len()).expect("node ids have at most 1,024 bytes").to_be_bytes()
}

fn put_id(message: &mut Vec<u8>, id: &NodeId) {
    message.extend(length(id.as_str().as_bytes()));
    message.extend(id.as_str().as_bytes());
}

async fn send(io: &mut (impl AsyncWrite + Unpin), message: &[u8]) -> Result<(), ConnectionError> {
    io.write_all(&[&length(message), message].concat()).await?;
    Ok(io.flush().await?)
}

async fn receive(io: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, ConnectionError> {
    let length = usize::from(io.read_u16().await?);
    if length > MAX_MESSAGE {
        return Err(ConnectionError::Handshake("a message is too long"));
    }
    let mut message = vec![0; length];
    io.read_exact(&mut message).await?;
    Ok(message)
}
