//! Token buckets per user, shared by all connections and calls of that user. The table drops a
//! user's buckets when they are full again.

use std::sync::Arc;
use std::time::Duration;

use bluetick_core::time::Clock;
use bluetick_core::{Timestamp, UserId};
use bluetick_wire::BadInput;

use super::RefillRate;
use super::bucket::Bucket;
use super::limit_table::LimitTable;
use crate::problem::Problem;
use crate::settings::LimitSettings;

/// Upper bound on the number of users with buckets of their own. Above it, new users share one set
/// of buckets, which bounds memory and throttles made-up user names together.
const MAX_USERS: usize = 1 << 20;

/// Bound on how often a user's connect updates the stored `last_seen_at`, per minute. More updates
/// would add writes and almost no precision.
const LAST_SEEN_UPDATES_PER_MINUTE: u32 = 4;

/// One hour, the period of the hourly quotas.
const HOUR: Duration = Duration::from_secs(3_600);

/// Builds a rate whose capacity is the whole quota. The bucket refills evenly over the period.
fn quota(count: u32, period: Duration) -> RefillRate {
    RefillRate::new(count, period, count)
}

/// The quota that one call consumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Number of conversations that the call creates.
    pub conversations: usize,
    /// Number of users that the call adds to a group.
    pub invited: usize,
}

/// The configured rate of each bucket. The same for all users.
#[derive(Clone, Copy, Debug)]
struct Rates {
    sends: RefillRate,
    requests: RefillRate,
    acks: RefillRate,
    connects: RefillRate,
    last_seen_updates: RefillRate,
    logins: RefillRate,
    conversations: RefillRate,
    invitations: RefillRate,
    invited: RefillRate,
}

/// The buckets of one user.
#[derive(Debug, Default)]
struct Buckets {
    sends: Bucket,
    requests: Bucket,
    acks: Bucket,
    connects: Bucket,
    last_seen_updates: Bucket,
    logins: Bucket,
    conversations: Bucket,
    invitations: Bucket,
    invited: Bucket,
}

impl Buckets {
    fn are_full(&self, rates: &Rates, now: Timestamp) -> bool {
        self.sends.is_full(rates.sends, now)
            && self.requests.is_full(rates.requests, now)
            && self.acks.is_full(rates.acks, now)
            && self.connects.is_full(rates.connects, now)
            && self.last_seen_updates.is_full(rates.last_seen_updates, now)
            && self.logins.is_full(rates.logins, now)
            && self.conversations.is_full(rates.conversations, now)
            && self.invitations.is_full(rates.invitations, now)
            && self.invited.is_full(rates.invited, now)
    }
}

/// The buckets of all users, with the configured rates.
pub(crate) struct Budgets {
    rates: Arc<Rates>,
    clock: Arc<dyn Clock>,
    entries: LimitTable<UserId, Buckets>,
}

/// Handle to the buckets of one user. A connection keeps it for its lifetime, which also keeps the
/// buckets in the table.
#[derive(Clone)]
pub(crate) struct UserBudget {
    rates: Arc<Rates>,
    clock: Arc<dyn Clock>,
    buckets: Arc<Buckets>,
}

impl Budgets {
    pub fn new(limits: &LimitSettings, clock: Arc<dyn Clock>) -> Budgets {
        let second = Duration::from_secs(1);
        let minute = Duration::from_secs(60);
        let (connects, logins) = (limits.connects_per_user_per_minute, limits.logins_per_minute);
        let rates = Rates {
            sends: RefillRate::new(limits.sends_per_second, second, limits.sends_burst),
            requests: RefillRate::new(limits.requests_per_second, second, limits.requests_burst),
            acks: RefillRate::new(limits.acks_per_second, second, limits.acks_burst),
            connects: RefillRate::new(connects, minute, connects.div_ceil(4)),
            last_seen_updates: RefillRate::new(
                LAST_SEEN_UPDATES_PER_MINUTE,
                minute,
                LAST_SEEN_UPDATES_PER_MINUTE,
            ),
            logins: RefillRate::new(logins, minute, logins.div_ceil(3)),
            conversations: quota(limits.conversations_per_user_per_day, 24 * HOUR),
            invitations: quota(limits.group_invitations_per_user_per_hour, HOUR),
            invited: quota(limits.members_added_per_user_per_hour, HOUR),
        };
        Budgets { rates: Arc::new(rates), clock, entries: LimitTable::new(MAX_USERS) }
    }

    /// Returns the buckets of a user, and creates them if needed.
    pub fn of(&self, user: &UserId) -> UserBudget {
        let now = self.clock.now();
        let buckets = self.entries.of(user, now, |buckets| buckets.are_full(&self.rates, now));
        UserBudget { rates: Arc::clone(&self.rates), clock: Arc::clone(&self.clock), buckets }
    }
}

impl UserBudget {
    /// Charges one request: each HTTP call and each frame without a bucket of its own.
    pub fn request(&self) -> Result<(), Problem> {
        self.take(&self.buckets.requests, self.rates.requests)
    }

    /// Charges one extra request for every hundred users that a call names.
    pub fn people(&self, count: usize) -> Result<(), Problem> {
        let taken = self.buckets.requests.take_many(count / 100, self.rates.requests, self.clock.now());
        taken.map_err(Problem::rate_limited)
    }

    /// Charges one message, in addition to its request.
    pub fn send(&self) -> Result<(), Problem> {
        self.take(&self.buckets.sends, self.rates.sends)
    }

    /// Charges one `delivered` or `read` frame.
    pub fn ack(&self) -> Result<(), Problem> {
        self.take(&self.buckets.acks, self.rates.acks)
    }

    /// Charges one `hello` frame.
    pub fn connect(&self) -> Result<(), Problem> {
        self.take(&self.buckets.connects, self.rates.connects)
    }

    /// Returns whether this connect should update the stored `last_seen_at`. Takes a token if so.
    pub fn records_last_seen(&self) -> bool {
        self.take(&self.buckets.last_seen_updates, self.rates.last_seen_updates).is_ok()
    }

    /// Charges one log-in attempt for this user name.
    pub fn login(&self) -> Result<(), Problem> {
        self.take(&self.buckets.logins, self.rates.logins)
    }

    /// Takes all parts of the quota, or none if one of them is exhausted. A call that adds more
    /// users than a full bucket holds can never succeed, so it is an invalid request.
    pub fn spend(&self, quota: Quota) -> Result<(), Problem> {
        let (parts, now) = (self.parts(quota), self.clock.now());
        if self.rates.invited.exceeds(quota.invited) {
            let reason = "it names more people than limits.members_added_per_user_per_hour allows";
            return Err(BadInput::field("members", reason).into());
        }
        for (at, (tokens, bucket, rate)) in parts.into_iter().enumerate() {
            if let Err(wait) = bucket.take_many(tokens, rate, now) {
                for (tokens, bucket, rate) in &parts[..at] {
                    bucket.give_back(*tokens, *rate);
                }
                return Err(Problem::rate_limited(wait));
            }
        }
        Ok(())
    }

    /// Returns the quota of a call that changed nothing.
    pub fn refund(&self, quota: Quota) {
        for (tokens, bucket, rate) in self.parts(quota) {
            bucket.give_back(tokens, rate);
        }
    }

    fn parts(&self, quota: Quota) -> [(usize, &Bucket, RefillRate); 3] {
        let (buckets, rates) = (&self.buckets, &self.rates);
        [
            (quota.conversations, &buckets.conversations, rates.conversations),
            (usize::from(quota.invited > 0), &buckets.invitations, rates.invitations),
            (quota.invited, &buckets.invited, rates.invited),
        ]
    }

    fn take(&self, bucket: &Bucket, rate: RefillRate) -> Result<(), Problem> {
        bucket.take(rate, self.clock.now()).map_err(Problem::rate_limited)
    }
}

#[cfg(test)]
mod tests {
    use bluetick_core::time::ManualClock;

    use super::*;

    fn budgets(clock: &Arc<ManualClock>) -> Budgets {
        let limits = LimitSettings { sends_per_second: 1, sends_burst: 1, ..LimitSettings::default() };
        Budgets::new(&limits, Arc::<ManualClock>::clone(clock))
    }

    fn user(name: &str) -> UserId {
        name.parse().unwrap()
    }

    #[test]
    fn connections_of_one_user_share_a_budget_and_users_do_not() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000_000)));
        let budgets = budgets(&clock);
        assert!(budgets.of(&user("alice")).send().is_ok());
        assert!(budgets.of(&user("alice")).send().is_err());
        assert!(budgets.of(&user("bob")).send().is_ok());
    }

    #[test]
    fn quota_is_spent_completely_or_not_at_all_and_refills_with_time() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000_000)));
        let limits = LimitSettings {
            conversations_per_user_per_day: 2,
            group_invitations_per_user_per_hour: 2,
            members_added_per_user_per_hour: 10,
            ..LimitSettings::default()
        };
        let budgets = Budgets::new(&limits, Arc::<ManualClock>::clone(&clock));
        let alice = budgets.of(&user("alice"));
        let spend = |conversations, invited| alice.spend(Quota { conversations, invited });
        spend(1, 8).unwrap();
        assert!(spend(1, 8).is_err(), "the quota for added members is used up");
        spend(1, 2).unwrap();
        assert_eq!(spend(1, 0).unwrap_err().retry_after, Some(12 * HOUR));
        assert_eq!(
            spend(0, 1).unwrap_err().retry_after,
            Some(HOUR / 2),
            "the quota for new conversations is used up"
        );
        alice.refund(Quota { conversations: 1, invited: 2 });
        spend(1, 2).unwrap();
        // A call above the whole quota is refused and consumes nothing.
        budgets.of(&user("carol")).spend(Quota { conversations: 0, invited: 11 }).unwrap_err();
        budgets.of(&user("bob")).spend(Quota { conversations: 1, invited: 10 }).unwrap();
        clock.advance_millis(1_800_000);
        spend(0, 5).unwrap();
        assert!(spend(1, 0).is_err());
    }

    #[test]
    fn idle_users_are_dropped_and_held_budgets_are_kept() {
        let clock = Arc::new(ManualClock::at(Timestamp::from_millis(1_000_000)));
        let budgets = budgets(&clock);
        let kept = budgets.of(&user("kept"));
        for number in 0..20_000 {
            budgets.of(&user(&format!("user{number}"))).send().unwrap();
            clock.advance_millis(10);
        }
        assert!(budgets.entries.len() <= 4_000, "{}", budgets.entries.len());
        assert!(budgets.entries.contains_key(&user("kept")));
        kept.send().unwrap();
    }
}
