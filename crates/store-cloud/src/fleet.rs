//! Who is connected to this node, as the other nodes and the next life of this one should know.

use std::sync::Arc;

use async_trait::async_trait;
use bluetick_core::ports::{Ephemeral, Fleet, FleetCounters};
use bluetick_core::{ConversationId, Seq, StoreError, Timestamp, UserId};

use crate::NodeId;
use crate::engine::{CloudStore, Engine};
use crate::keyed::side_by_side;

/// Which nodes a user is connected to stands in its row, one to a line, so that whoever was connected to a node that died
/// is found to have been, also when Redis has forgotten.
const NODES: &str = "nodes";

/// A line that is no node: the user may have missed something since then (in milliseconds), wherever it was.
const MARK: char = '?';
const EVER: Timestamp = Timestamp::from_millis(i64::MIN);

/// Rows written side by side.
const AT_ONCE: usize = 16;

#[async_trait]
impl Fleet for CloudStore {
    async fn user_connected(&self, user: &UserId) {
        self.engine.until_known().await;
        let _one = self.engine.local.turns.enter(user).await;
        if self.engine.local.user_connected(user)
            && let Err(error) = self.engine.note_arrival(user).await
        {
            tracing::debug!(%error, "that a user came could not be written down; what it missed is looked for");
            self.engine.local.doubt(user, EVER);
        }
    }

    async fn user_disconnected(&self, user: &UserId) {
        let _one = self.engine.local.turns.enter(user).await;
        // In this order: who looks up where the user is, still finds it here and tells this node, which then owes.
        let unanswered = self.engine.local.user_disconnected(user);
        self.engine.local.note_departed(user);
        if let Err(error) = self.engine.note_departure(user, &unanswered).await {
            tracing::warn!(%error, "what a user has not acknowledged could not be written down yet");
            tokio::spawn(Arc::clone(&self.engine).surely_note_departure(user.clone(), unanswered));
        }
    }

    async fn is_connected_elsewhere(&self, user: &UserId) -> bool {
        let engine = &self.engine;
        let nobody = ConversationId::group([0; 15]);
        let found = engine.hints.whereabouts(nobody, std::slice::from_ref(user)).await;
        found.is_ok_and(|found| engine.local.any_other_lives(&engine.node, &found[0].nodes))
    }

    fn send_ephemeral(&self, ephemeral: Ephemeral) {
        self.engine.pass_on(ephemeral);
    }

    fn counters(&self) -> Option<FleetCounters> {
        Some(self.counters_now())
    }
}

impl Engine {
    pub(crate) fn counters_now(&self) -> FleetCounters {
        let (own, rows, reads) = (&self.counters, self.rows.counts(), self.reader.counts());
        FleetCounters {
            redis_up: own.hints_away.get() == 0,
            nodes: self.local.living().len() as u64,
            dynamodb_requests: rows.requests,
            dynamodb_retries: rows.retries,
            dynamodb_throttles: rows.throttles,
            voids_written: own.voids.get(),
            reseeds: own.reseeds.get(),
            fallback_sends: own.fallback_sends.get(),
            news_sent: own.news_sent.get(),
            news_received: own.news_received.get(),
            repairs: own.repairs.get(),
            salt_epochs: self.keeper.epochs_begun(),
            scatter_reads: reads.scatter_reads,
            scatter_queries: reads.scatter_queries,
            coalesced_reads: reads.coalesced,
        }
    }

    async fn note_arrival(self: &Arc<Engine>, user: &UserId) -> Result<(), StoreError> {
        if self.hints.connect(user, &self.node).await.is_err() {
            self.mending.say_who_is_missed();
        }
        let before = self
            .update_row(user, |row| {
                let others = self.living_nodes(row.find_text(NODES).map_or("", |nodes| nodes));
                let nodes: Vec<_> = others.chain([self.node.as_str()]).collect();
                let nodes = nodes.join("\n");
                Ok(Some(row.text(NODES, nodes)))
            })
            .await?;
        let before = before.find_text(NODES).cloned().unwrap_or_else(|| "".into());
        for line in before.lines().filter(|line| *line != self.node.as_str()) {
            let since = match line.strip_prefix(MARK) {
                Some(since) => since.parse().map_or(EVER, Timestamp::from_millis),
                // It may have died just now.
                None if self.local.lives(&NodeId::new(line)) => self.lately(),
                // What was pushed there and not acknowledged may be old.
                None => EVER,
            };
            self.local.doubt(user, since);
        }
        Ok(())
    }

    /// The user has gone from here, and may have missed something: whoever sees it next looks for that.
    pub(crate) async fn mark_departed(&self, user: &UserId) -> Result<(), StoreError> {
        self.update_row(user, |row| {
            let nodes = row.find_text(NODES).map_or("", |nodes| nodes);
            let nodes = format!("{nodes}\n{MARK}{}", self.lately().millis());
            Ok(Some(row.text(NODES, nodes.trim_start())))
        })
        .await?;
        Ok(())
    }

    fn living_nodes<'a>(&self, nodes: &'a str) -> impl Iterator<Item = &'a str> {
        nodes.lines().filter(|node| *node != self.node.as_str() && self.local.lives(&NodeId::new(*node)))
    }

    async fn surely_note_departure(self: Arc<Engine>, user: UserId, unanswered: Vec<(ConversationId, Seq)>) {
        while !self.is_closed() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            let _one = self.local.turns.enter(&user).await;
            if self.note_departure(&user, &unanswered).await.is_ok() {
                return;
            }
        }
    }

    /// Until its end the user's row names this node, in case it does not come to the end.
    async fn note_departure(
        &self,
        user: &UserId,
        unanswered: &[(ConversationId, Seq)],
    ) -> Result<(), StoreError> {
        let owing = unanswered.iter().map(|(id, first)| self.owe(user.clone(), *id, *first)).collect();
        side_by_side(AT_ONCE, owing).await.into_iter().collect::<Result<(), _>>()?;
        if self.local.is_here(user) {
            return Ok(());
        }
        let _may_fail = self.hints.disconnect(user, &self.node).await;
        self.update_row(user, |row| {
            let Some(nodes) = row.find_text(NODES) else { return Ok(None) };
            let marks = nodes.lines().filter(|line| line.starts_with(MARK));
            let mut lines: Vec<String> = self.living_nodes(nodes).chain(marks).map(str::to_owned).collect();
            if self.local.is_troubled() {
                lines.push(format!("{MARK}{}", self.lately().millis()));
            }
            Ok(Some(row.text(NODES, lines.join("\n"))))
        })
        .await?;
        Ok(())
    }
}
