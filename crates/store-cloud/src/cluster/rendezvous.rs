//! Rendezvous (highest random weight) hashing: the owner of a conversation among the live nodes.
//!
//! Pure functions. All versions of the server must compute the same weights: nodes of two versions
//! run side by side during an upgrade, and a difference would send calls to the wrong node.

use std::cmp::Reverse;

use bluetick_core::ConversationId;
use sha2::{Digest, Sha256};

use crate::NodeId;

/// Separates this hash from other hashes of the same ids.
const LABEL: &[u8] = b"bluetick conversation owner v1\0";

/// Returns the node with the highest weight, or `None` without nodes. The order of `nodes` has no
/// influence.
pub fn owner<'a>(
    conversation: ConversationId,
    nodes: impl IntoIterator<Item = &'a NodeId>,
) -> Option<&'a NodeId> {
    nodes.into_iter().max_by_key(|node| rank(conversation, node))
}

/// Returns all nodes, the owner first. When a node leaves, the order of the others stays the same,
/// so the second candidate is the next owner.
pub fn candidates<'a>(
    conversation: ConversationId,
    nodes: impl IntoIterator<Item = &'a NodeId>,
) -> Vec<&'a NodeId> {
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    nodes.sort_by_cached_key(|node| Reverse(rank(conversation, node)));
    nodes
}

/// The weight, then the id: two nodes with one weight still have an order.
fn rank(conversation: ConversationId, node: &NodeId) -> (u64, &NodeId) {
    // The conversation id has a fixed length, so no two pairs have the same bytes.
    let hash = Sha256::new()
        .chain_update(LABEL)
        .chain_update(conversation.as_bytes())
        .chain_update(node.as_str())
        .finalize();
    let first = hash.first_chunk().expect("SHA-256 has 32 bytes");
    (u64::from_be_bytes(*first), node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<NodeId> {
        (0..count).map(|number| NodeId::new(format!("node-{number}"))).collect()
    }

    fn conversations(count: u32) -> impl Iterator<Item = ConversationId> {
        (0..count).map(|number| {
            let mut bits = [0; 15];
            bits[..4].copy_from_slice(&number.to_be_bytes());
            ConversationId::group(bits)
        })
    }

    #[test]
    fn each_of_seven_nodes_owns_about_a_seventh_of_the_conversations() {
        let nodes = nodes(7);
        let mut counts = std::collections::BTreeMap::<&NodeId, u32>::new();
        for conversation in conversations(14_000) {
            *counts.entry(owner(conversation, &nodes).unwrap()).or_default() += 1;
        }
        assert_eq!(counts.len(), 7);
        assert!(counts.values().all(|count| (1_800..2_200).contains(count)), "{counts:?}");
    }

    #[test]
    fn leaving_node_moves_only_its_own_conversations_to_their_second_candidates() {
        let nodes = nodes(5);
        let left = &nodes[2];
        let mut moved = 0;
        for conversation in conversations(2_000) {
            let before = candidates(conversation, &nodes);
            let remaining = nodes.iter().filter(|node| *node != left);
            let after = candidates(conversation, remaining);
            moved += u32::from(before[0] == left);
            assert_eq!(after[0], if before[0] == left { before[1] } else { before[0] });
            assert_eq!(after, before.into_iter().filter(|node| *node != left).collect::<Vec<_>>());
        }
        assert!((300..500).contains(&moved), "{moved} of 2000 conversations moved");
    }

    #[test]
    fn owner_is_the_first_candidate_in_any_order_of_the_nodes() {
        let forward = nodes(4);
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        for conversation in conversations(100) {
            assert_eq!(owner(conversation, &forward), owner(conversation, &backward));
            assert_eq!(owner(conversation, &forward), candidates(conversation, &backward).first().copied());
        }
        assert_eq!(owner(ConversationId::group([0; 15]), &[]), None);
    }

    #[test]
    fn weights_are_the_ones_of_earlier_versions() {
        // Computed by another implementation of SHA-256.
        let nodes = nodes(3);
        let owners: String = conversations(24)
            .map(|conversation| owner(conversation, &nodes).unwrap().as_str().chars().last().unwrap())
            .collect();
        assert_eq!(owners, "221022010200220201022012");
        assert_eq!(rank(ConversationId::group([7; 15]), &nodes[0]).0, 0xe7475e8957c5c91b);
    }
}
