//! Counters, ids and versions of conversations.

use std::collections::BTreeSet;
use std::time::Duration;

use ::redis::Value;
use bluetick_core::{ConversationId, Epoch, Seq, Timestamp, UserId};

use super::keys::SHARDS;
use super::{RedisHints, fresh_name};
use crate::hints::{Away, Glance, Place, RegistryCopy, Reserve, Reserved, Seed};
use crate::redis::call::{
    Call, GLANCE, MEMBERS, REGISTRY, RESERVE, SEED, SENT, list, number, odd, text, unsigned,
};

/// How many ids or senders go with one script: a server does nothing else while it runs.
const PART: usize = 500;
/// How often seeding is begun again when it is lost on the way.
const ATTEMPTS: usize = 3;

impl RedisHints {
    pub(super) async fn reserve_place(&self, reserve: &Reserve) -> Result<Reserved, Away> {
        let keys = self.keys.of_conversation(reserve.conversation);
        let call = Call::script(&RESERVE, &keys.conversation)
            .key(&keys.sent)
            .key(&keys.recent)
            .bytes(&reserve.id.0.to_be_bytes())
            .text(reserve.sender.as_str())
            .number(reserve.now.millis())
            .number(reserve.instead_of.map_or(0, Seq::get))
            .number(reserve.settled.get())
            .text(&reserve.conversation.to_string())
            .number(self.window_days)
            .number(self.keep_seconds)
            .number(reserve.registry_version);
        let answer = self.redis.run(call).await?;
        let [seq, known, last_at, members_version, settled, seeded_ago, seeded_head, registry] =
            list(&answer)?
        else {
            return if answer == Value::Nil { Ok(Reserved::Unseeded) } else { Err(odd()) };
        };
        Ok(Reserved::Place(Place {
            seq: Seq::new(unsigned(seq)?),
            known: number(known)? == 1,
            last_at: Timestamp::from_millis(number(last_at)?),
            members_version: unsigned(members_version)?,
            settled: Seq::new(unsigned(settled)?),
            seeded_ago: u64::try_from(number(seeded_ago)?).ok().map(Duration::from_millis),
            seeded_head: Seq::new(unsigned(seeded_head)?),
            registry: if *registry == Value::Nil { None } else { decode_copy(text(registry)?) },
        }))
    }

    pub(super) async fn seed_conversation(&self, seed: &Seed) -> Result<(), Away> {
        for _ in 0..ATTEMPTS {
            if self.seed_in_parts(seed).await? || !seed.is_whole {
                return Ok(());
            }
        }
        Err(Away("what was seeded got lost on the way".to_owned()))
    }

    /// False when the first part was lost before the last one came, or there is nothing that ids could be added to.
    async fn seed_in_parts(&self, seed: &Seed) -> Result<bool, Away> {
        let keys = self.keys.of_conversation(seed.conversation);
        let mut name = if seed.is_whole { fresh_name() } else { String::new() };
        let parts = seed.ids.len().div_ceil(PART).max(seed.sent.len().div_ceil(PART)).max(1);
        for part in 0..parts {
            let ids = part_of(&seed.ids, part);
            let read_ago = seed.read_at.map(|at| i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX));
            let mut call = Call::script(&SEED, &keys.conversation)
                .key(&keys.sent)
                .number(part == 0)
                .number(part + 1 == parts)
                .text(&name)
                .number(seed.head.get())
                .number(seed.settled.get())
                .number(seed.last_at.millis())
                .number(seed.members_version)
                .number(self.window_days)
                .number(self.keep_seconds)
                .number(read_ago.unwrap_or(-1))
                .text(&seed.registry.as_ref().map(encode_copy).unwrap_or_default())
                .number(ids.len() as u64);
            for (id, seq, at) in ids {
                call = call.bytes(&id.0.to_be_bytes()).number(seq.get()).number(at.millis());
            }
            for (user, seq) in part_of(&seed.sent, part) {
                call = call.text(user.as_str()).number(seq.get());
            }
            match self.redis.run(call).await? {
                Value::Nil => return Ok(false),
                answer => name = text(&answer)?.to_owned(),
            }
        }
        Ok(true)
    }

    pub(super) async fn glance_at(&self, conversation: ConversationId) -> Result<Option<Glance>, Away> {
        let keys = self.keys.of_conversation(conversation);
        let answer = self.redis.run(Call::script(&GLANCE, &keys.conversation)).await?;
        let [reserved, settled, members_version] = list(&answer)? else {
            return if answer == Value::Nil { Ok(None) } else { Err(odd()) };
        };
        Ok(Some(Glance {
            reserved: Seq::new(unsigned(reserved)?),
            settled: Seq::new(unsigned(settled)?),
            members_version: unsigned(members_version)?,
        }))
    }

    pub(super) async fn sent_by(
        &self,
        conversation: ConversationId,
        users: &[UserId],
    ) -> Result<Option<Vec<Seq>>, Away> {
        if users.is_empty() {
            return Ok(self.glance_at(conversation).await?.map(|_| Vec::new()));
        }
        let keys = self.keys.of_conversation(conversation);
        let parts: Vec<_> = users.chunks(PART).collect();
        let calls = parts.iter().map(|part| {
            let call = Call::script(&SENT, &keys.conversation).key(&keys.sent);
            part.iter().fold(call, |call, user| call.text(user.as_str()))
        });
        let answers = self.redis.run_all(calls.collect()).await?;
        let mut sent = Vec::with_capacity(users.len());
        for answer in &answers {
            if *answer == Value::Nil {
                return Ok(None);
            }
            for seq in list(answer)? {
                sent.push(Seq::new(unsigned(seq)?));
            }
        }
        Ok(Some(sent))
    }

    pub(super) async fn set_members_version(
        &self,
        conversation: ConversationId,
        version: u64,
    ) -> Result<(), Away> {
        let keys = self.keys.of_conversation(conversation);
        self.redis.run(Call::script(&MEMBERS, &keys.conversation).number(version)).await?;
        Ok(())
    }

    pub(super) async fn set_registry(
        &self,
        conversation: ConversationId,
        copy: &RegistryCopy,
    ) -> Result<(), Away> {
        let keys = self.keys.of_conversation(conversation);
        self.redis.run(Call::script(&REGISTRY, &keys.conversation).text(&encode_copy(copy))).await?;
        Ok(())
    }

    pub(super) async fn with_recent_places(&self, since: Timestamp) -> Result<Vec<ConversationId>, Away> {
        let of_shard = |shard| {
            Call::command("ZRANGEBYSCORE", &self.keys.recent(shard)).number(since.millis()).text("+inf")
        };
        let answers = self.redis.run_all((0..SHARDS).map(of_shard).collect()).await?;
        let mut found = BTreeSet::new();
        for answer in &answers {
            for id in list(answer)? {
                found.insert(text(id)?.parse().map_err(|_| odd())?);
            }
        }
        Ok(found.into_iter().collect())
    }
}

/// The scripts compare the numbers.
fn encode_copy(copy: &RegistryCopy) -> String {
    format!("{}:{}:{}", copy.epoch.get(), copy.version, copy.text)
}

fn decode_copy(text: &str) -> Option<RegistryCopy> {
    let mut parts = text.splitn(3, ':');
    let epoch = Epoch::new(parts.next()?.parse().ok()?);
    Some(RegistryCopy { epoch, version: parts.next()?.parse().ok()?, text: parts.next()?.into() })
}

fn part_of<T>(all: &[T], part: usize) -> &[T] {
    all.chunks(PART).nth(part).unwrap_or_default()
}
