//! Checks each conversation as a whole: contiguous seqs, fingerprints, read states, and the rows
//! derived from it.

use bluetick_core::inbox::InboxSection;
use bluetick_core::ports::{Progress, Stage};
use bluetick_core::{ContentType, ConversationId, ConversationKind, Member, MemberState, Seq, Timestamp};

use super::CheckReport;
use super::finding::{Finding, Findings};
use super::lookalikes::Lookalikes;
use super::replay::ChangedByLog;
use crate::codec::chunk::{self, Fingerprint, Fingerprinter, Header};
use crate::codec::cold::ColdChunk;
use crate::codec::record::{self, Record};
use crate::codec::rows::{self, StoredConversation};
use crate::tables::{ChunkKey, Snapshot, TablesError};

/// Number of rows between two progress reports. A smaller number slows the check; a larger one
/// makes progress coarse.
const ROWS_BETWEEN_REPORTS: u64 = 1_000;

/// The state of the row and conversation checks.
pub struct RowCheck<'a> {
    pub snapshot: &'a Snapshot<'a>,
    pub fingerprinter: Fingerprinter,
    pub lookalikes: &'a mut Lookalikes,
    pub unsettled: &'a ChangedByLog,
    /// Whether this version of the program built the rows of `names`.
    pub names_are_current: bool,
    pub findings: &'a mut Findings,
    pub report: &'a mut CheckReport,
    pub progress: &'a dyn Progress,
    pub total: u64,
}

/// Totals over the chunks of one conversation.
struct Chunks {
    next: Seq,
    notices: u64,
    newest: Timestamp,
    /// Whether all headers are readable.
    whole: bool,
    last_record: Option<Vec<u8>>,
    last_is_cold: bool,
}

impl RowCheck<'_> {
    pub(super) fn count_rows(&mut self, rows: u64) {
        let before = self.report.rows;
        self.report.rows += rows;
        if before / ROWS_BETWEEN_REPORTS != self.report.rows / ROWS_BETWEEN_REPORTS {
            self.progress.advanced(Stage::Checking, self.report.rows, self.total);
        }
    }

    pub fn all_conversations(&mut self) -> Result<(), TablesError> {
        let snapshot = self.snapshot;
        snapshot.sound_conversations(|id| {
            self.report.conversations += 1;
            // The check of the rows has already reported an unreadable conversation.
            let Ok(Some(stored)) = snapshot.conversation(id) else { return Ok(()) };
            let checked = self.conversation(id, &stored);
            self.report_if_damaged(checked)
        })?;
        self.progress.advanced(Stage::Checking, self.total, self.total);
        Ok(())
    }

    fn conversation(&mut self, id: ConversationId, stored: &StoredConversation) -> Result<(), TablesError> {
        let head = stored.conversation.head;
        self.report.messages += head.get();
        let chunks = self.chunks(id, head)?;
        if chunks.next != head.next() {
            let finding = Finding::row("chunks", id.to_string(), "these messages are missing");
            match chunks.next < head.next() {
                true => self.findings.add(finding.of(id).at(chunks.next, head)),
                false => {
                    let finding = Finding::row("chunks", id.to_string(), "there are messages above the head");
                    self.findings.add(finding.of(id).at(head.next(), chunks.next.previous()));
                }
            }
        }
        if chunks.whole && chunks.notices != stored.notices {
            let what = format!("the row has {} notices instead of {}", stored.notices, chunks.notices);
            self.findings.add(Finding::row("conversations", id.to_string(), what).of(id));
        }
        if chunks.whole && chunks.newest > stored.newest_at && head > Seq::ZERO {
            let what = "a message is newer than the row's newest_at";
            self.findings.add(Finding::row("conversations", id.to_string(), what).of(id));
        }
        let Ok((members, member_states)) = self.snapshot.members(id) else { return Ok(()) };
        if id.kind() == ConversationKind::Direct {
            let people: Vec<_> = members.iter().map(|member| &member.user).collect();
            let fits = match people[..] {
                [one] => ConversationId::direct(one, one) == id,
                [one, other] => ConversationId::direct(one, other) == id,
                _ => false,
            };
            if !fits {
                let what = "these are not the two members of this direct conversation";
                self.findings.add(Finding::row("members", id.to_string(), what).of(id));
            }
        }
        for (member, member_state) in members.iter().zip(&member_states) {
            self.member_state(id, head, member, member_state);
            if !self.unsettled.heads.contains_key(&id) {
                self.lines(id, stored, member, member_state, &chunks)?;
            }
        }
        Ok(())
    }

    fn chunks(&mut self, id: ConversationId, head: Seq) -> Result<Chunks, TablesError> {
        let mut all = Chunks {
            next: Seq::FIRST,
            notices: 0,
            newest: Timestamp::from_millis(i64::MIN),
            whole: true,
            last_record: None,
            last_is_cold: false,
        };
        let (mut wrong, mut rows, mut cold) = (Vec::new(), 0, Vec::new());
        let fingerprinter = self.fingerprinter;
        let mut unread_from: Option<Seq> = None;
        self.snapshot.chunks(id, Seq::FIRST, |first, bytes| {
            rows += 1;
            let finding =
                |what: String| Finding::row("chunks", format!("{id} from seq {first}"), what).of(id);
            if let Some(from) = unread_from.take() {
                let what = "the header of this chunk is damaged".to_owned();
                let unread = Finding::row("chunks", format!("{id} from seq {from}"), what).of(id);
                wrong.push(unread.at(from, first.previous()));
                all.next = first;
            }
            if first > all.next {
                wrong.push(
                    finding("the messages before it are missing".to_owned()).at(all.next, first.previous()),
                );
            } else if first < all.next {
                wrong.push(
                    finding("it overlaps the chunk before it".to_owned()).at(first, all.next.previous()),
                );
            }
            let header = match Header::read(bytes) {
                Ok(header) => header,
                Err(_) => {
                    (unread_from, all.whole) = (Some(first), false);
                    return Ok(true);
                }
            };
            let last = first.plus(header.count as u64).previous();
            if all.whole && header.notices_before != all.notices {
                let what =
                    format!("{} notices before it; the header says {}", all.notices, header.notices_before);
                wrong.push(finding(what).at(first, last));
            }
            all.notices = header.notices_before;
            all.next = first.plus(header.count as u64);
            let records = match header.is_cold() {
                true => ColdChunk::read(&header).map(|chunk| {
                    cold.push((first, chunk.location));
                    chunk.stubs
                }),
                false => chunk::unpack(&header),
            };
            let records = match records {
                Ok(records) => records,
                Err(error) => {
                    wrong.push(finding(error.to_string()).at(first, last));
                    all.notices +=
                        header.fingerprints().filter(|print| *print == Fingerprint::NONE).count() as u64;
                    all.last_record = None;
                    return Ok(true);
                }
            };
            for ((record, print), seq) in records.records().zip(header.fingerprints()).zip(first.get()..) {
                let seq = Seq::new(seq);
                let decoded = match Record::decode(record) {
                    Ok(decoded) => decoded,
                    Err(error) => {
                        wrong.push(finding(error.to_string()).at(seq, seq));
                        continue;
                    }
                };
                let expected = match decoded.content_type {
                    ContentType::System => Fingerprint::NONE,
                    _ => fingerprinter.of(decoded.sender, &decoded.message_id),
                };
                if print != expected {
                    wrong.push(
                        finding("its id does not match the fingerprint in the header".to_owned())
                            .at(seq, seq),
                    );
                }
                if decoded.received_at > header.newest_received_at {
                    wrong.push(
                        finding("it was received after the time in the header of its chunk".to_owned())
                            .at(seq, seq),
                    );
                }
                all.newest = all.newest.max(decoded.received_at);
                all.notices += u64::from(print == Fingerprint::NONE);
            }
            all.last_record = records.records().next_back().map(<[u8]>::to_vec);
            all.last_is_cold = header.is_cold();
            Ok(true)
        })?;
        if let Some(from) = unread_from {
            let what = "the header of this chunk is damaged";
            let unread = Finding::row("chunks", format!("{id} from seq {from}"), what).of(id);
            wrong.push(unread.at(from, head.max(from)));
            all.next = head.next();
        }
        wrong.into_iter().for_each(|finding| self.findings.add(finding));
        for (first, location) in cold {
            let key = ChunkKey { conversation: id, first: location.first };
            let row = self.snapshot.segment(key).ok().flatten();
            if row.is_none_or(|row| row.last != location.last || row.revision != location.revision) {
                let what = "it refers to an unknown segment of the archive";
                self.findings.add(
                    Finding::row("chunks", format!("{id} from seq {first}"), what)
                        .of(id)
                        .at(first, location.last),
                );
            }
        }
        self.count_rows(rows);
        Ok(all)
    }

    fn member_state(&mut self, id: ConversationId, head: Seq, member: &Member, member_state: &MemberState) {
        let MemberState { delivered, read, shown_read, acknowledged, sent, .. } = *member_state;
        let what = if member.joined_seq > head.next() {
            "the joined_seq is above the head"
        } else if delivered > head || acknowledged > head || sent > head {
            "the read state is above the head"
        } else if read > delivered {
            "read is above delivered"
        } else if shown_read > read {
            "shown_read is above read"
        } else {
            return;
        };
        self.findings.add(Finding::row("members", format!("{id} {}", member.user), what).of(id));
    }

    /// Checks the inbox and pending rows of one member.
    fn lines(
        &mut self,
        id: ConversationId,
        stored: &StoredConversation,
        member: &Member,
        member_state: &MemberState,
        chunks: &Chunks,
    ) -> Result<(), TablesError> {
        let key = rows::inbox_key(&member.user, id);
        let finding = |table, what: &str| Finding::row(table, format!("{} {id}", member.user), what).of(id);
        let (line, pending) = (self.snapshot.line_at(&key)?, self.snapshot.pending_at(&key)?);
        let (head, last_at) = (stored.conversation.head, stored.conversation.last_at);
        let expected_pending = member_state.pending_after(member.joined_seq, head);
        let stored_pending = pending.map(rows::read_pending);
        // The check of the rows has already reported an unreadable row.
        if !matches!(stored_pending, Some(Err(_))) && stored_pending.and_then(Result::ok) != expected_pending
        {
            self.findings
                .add(finding("pending", "the row does not match the member's unacknowledged messages"));
        }
        let Some(line) = line else {
            if !stored.conversation.is_listed_for(&member.user, head > Seq::ZERO) {
                if !self.snapshot.is_unlisted(&key)? {
                    self.findings.add(finding("unlisted", "there is no membership row"));
                }
                return Ok(());
            }
            self.findings.add(finding("inbox", "the member has no inbox row"));
            return Ok(());
        };
        let Ok(line) = rows::read_inbox(line) else { return Ok(()) };
        if line.last_seq != head
            || line.last_at != last_at
            || line.shelf != InboxSection::of(member_state.preferences)
        {
            self.findings.add(finding("inbox", "the row does not match the conversation"));
        }
        let shown = chunks.last_record.as_ref().filter(|_| !chunks.last_is_cold);
        let expected = shown.and_then(|record| record::cut(record).ok());
        if expected.is_some_and(|expected| expected != line.record) {
            self.findings.add(finding("inbox", "the row previews a message that is not the newest"));
        }
        Ok(())
    }
}
