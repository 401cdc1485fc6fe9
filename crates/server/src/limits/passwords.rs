//! Where passwords are hashed and checked: few at a time, off the threads that serve everybody else, and with a
//! waiting line that ends somewhere.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bluetick_wire::ErrorCode;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use crate::problem::Problem;
use crate::settings::LimitSettings;

pub(crate) struct PasswordDesk {
    /// Those being served and those waiting. Full: the newcomer is refused as overloaded.
    line: Arc<Semaphore>,
    served: Arc<Semaphore>,
    /// When somebody found the line full, last.
    refused: Mutex<Option<Instant>>,
}

/// For so long after somebody was refused there is a flood.
const FLOOD_LASTS: Duration = Duration::from_secs(1);
/// In a flood a processor rests after each password, this many times as long as that took. Most of those who wait are
/// not who they say; what is worked off sooner only lets more of them in, and honest messages are slower for it: the work
/// takes caches and memory from all processors.
const REST: u32 = 2;

impl PasswordDesk {
    pub fn new(limits: &LimitSettings) -> PasswordDesk {
        let permits = |setting: usize| if setting == 0 { Semaphore::MAX_PERMITS } else { setting };
        let served = permits(limits.password_checks_at_once);
        let line = served.saturating_add(permits(limits.password_checks_waiting)).min(Semaphore::MAX_PERMITS);
        PasswordDesk {
            line: Arc::new(Semaphore::new(line)),
            served: Arc::new(Semaphore::new(served)),
            refused: Mutex::default(),
        }
    }

    pub async fn serve<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let place = Arc::clone(&self.line).try_acquire_owned().map_err(|_| {
            *self.refused() = Some(Instant::now());
            Problem::overloaded()
        })?;
        let (turn, way) = match Arc::clone(&self.served).try_acquire_owned() {
            Ok(turn) => (turn, Way::Nearly),
            Err(_) => {
                let turn = Arc::clone(&self.served).acquire_owned().await;
                (turn.expect("the desk never closes"), Way::Wholly)
            }
        };
        let is_flood = self.refused().is_some_and(|at| at.elapsed() < FLOOD_LASTS);
        let (answer, answered) = oneshot::channel();
        // It comes to its end also when whoever asked has gone away.
        tokio::spawn(async move {
            let _held = (place, turn);
            let started = Instant::now();
            let done = tokio::task::spawn_blocking(move || behind_everybody(way, work)).await;
            let rest = REST * started.elapsed();
            let _nobody_waits = answer.send(done);
            if is_flood {
                tokio::time::sleep(rest).await;
            }
        });
        let failed = || Problem::new(ErrorCode::Internal, "the server failed");
        let done = answered.await.map_err(|_| failed())?.map_err(|_| failed())?;
        done.map_err(|_| Problem::overloaded())
    }

    fn refused(&self) -> MutexGuard<'_, Option<Instant>> {
        self.refused.lock().expect("nothing panics while it holds the lock")
    }
}

/// How far a password stands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It has a share of a processor that is wanted by others.
    Nearly,
    /// It has what is left over: where people wait in line there may be a flood of them, and everybody else goes first.
    Wholly,
}

/// Work that takes a processor for long makes way for everything that does not, so that a flood of log-ins keeps no message
/// waiting. Priority belongs to a thread and cannot be had back, so it is a thread of its own: its start costs a
/// thousandth of the work.
fn behind_everybody<T: Send>(way: Way, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("password".to_owned());
        let worker = thread.spawn_scoped(scope, || {
            make_way(way);
            work()
        })?;
        Ok(worker.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)))
    })
}

/// Elsewhere than on Linux it would be the priority of the whole server.
#[cfg(target_os = "linux")]
fn make_way(way: Way) {
    const STEPS_BACK: i32 = 10;
    if let Err(error) = rustix::process::nice(STEPS_BACK) {
        tracing::debug!(%error, "passwords are checked at the priority of everything else");
    }
    if way == Way::Wholly && !take_what_is_left() {
        tracing::debug!("the system does not let a thread have only what others leave");
    }
}

/// A thread with few shares still keeps its processor to the end of its slice when somebody else wakes up, which is
/// milliseconds; one that has what is left over does not.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "nothing that is safe asks for the policy of a thread")]
fn take_what_is_left() -> bool {
    // SAFETY: it is about the thread that calls, and the parameters are read before the call returns. All of them may be zero.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_IDLE, &raw const parameters) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn make_way(_way: Way) {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn passwords_are_checked_behind_everything_else_and_nothing_else_is() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let desk = PasswordDesk::new(&LimitSettings::default());
        let here = priority();
        assert!(desk.serve(priority).await.unwrap() > here.min(18));
        assert_eq!(tokio::task::spawn_blocking(priority).await.unwrap(), here);
        assert_eq!(priority(), here);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn whoever_had_to_wait_in_line_has_only_what_others_leave_of_a_processor() {
        // Field 41 of what the system tells of a thread is its policy; 5 is that of whoever has what is left over.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned()
        };
        let limits = LimitSettings { password_checks_at_once: 1, ..LimitSettings::default() };
        let desk = PasswordDesk::new(&limits);
        let (first, second) = tokio::join!(desk.serve(policy), desk.serve(policy));
        assert_eq!((first.as_deref(), second.as_deref()), (Ok("0"), Ok("5")));
        assert_eq!(tokio::task::spawn_blocking(policy).await.unwrap(), "0");
    }

    #[tokio::test]
    async fn whoever_finds_the_line_full_is_refused_and_the_others_get_their_turn() {
        let limits = LimitSettings {
            password_checks_at_once: 1,
            password_checks_waiting: 1,
            ..LimitSettings::default()
        };
        let desk = PasswordDesk::new(&limits);
        let (release, held) = mpsc::channel::<()>();
        let first = desk.serve(move || held.recv().is_ok());
        let second = desk.serve(|| true);
        let third = async {
            let refused = desk.serve(|| true).await;
            release.send(()).unwrap();
            refused
        };
        let (first, second, third) = tokio::join!(first, second, third);
        assert_eq!((first, second), (Ok(true), Ok(true)));
        assert_eq!(third, Err(Problem::overloaded()));
    }

    #[tokio::test]
    async fn in_a_flood_a_processor_rests_after_each_password() {
        const WORK: Duration = Duration::from_millis(40);
        let limits = LimitSettings {
            password_checks_at_once: 1,
            password_checks_waiting: 2,
            ..LimitSettings::default()
        };
        let work = || {
            std::thread::sleep(WORK);
            Instant::now()
        };
        // A machine that stands still for a second sees no flood; not every time.
        for _ in 0..5 {
            let desk = PasswordDesk::new(&limits);
            let (first, second, third, fourth) =
                tokio::join!(desk.serve(work), desk.serve(work), desk.serve(Instant::now), desk.serve(work));
            assert!(first.is_ok() && fourth == Err(Problem::overloaded()));
            // The second had its turn in a flood, and the third began when that one had rested.
            if third.unwrap() >= second.unwrap() + REST * WORK {
                return;
            }
        }
        panic!("nobody rested");
    }
}
