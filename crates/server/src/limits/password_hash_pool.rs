//! The password hash pool. It hashes and checks a bounded number of passwords concurrently, on
//! low-priority threads outside the async runtime, with a bounded queue.

use std::sync::Arc;
use std::time::Duration;

use bluetick_wire::ErrorCode;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::problem::Problem;
use crate::settings::LimitSettings;

/// The password hash pool. Two semaphores bound the running jobs and the queued jobs. The pool owns
/// the task of every running job; [`PasswordHashPool::close`] joins them.
pub(crate) struct PasswordHashPool {
    /// One permit per job, running or queued. If none is left, [`PasswordHashPool::run`] returns
    /// `overloaded`.
    admitted: Arc<Semaphore>,
    /// One permit per running job.
    running: Arc<Semaphore>,
    /// Time of the last `overloaded` refusal.
    last_refusal: Mutex<Option<Instant>>,
    /// The tasks of the running jobs.
    jobs: TaskTracker,
    /// Cancelled at shutdown, which ends the cool-down pauses.
    closing: CancellationToken,
}

/// Time after a refusal during which the pool assumes a flood of log-ins. If it is too short, the
/// pool skips its cool-down pauses between refusals.
const FLOOD_WINDOW: Duration = Duration::from_secs(1);
/// During a flood, a running permit stays taken for this many times the duration of the job, after
/// the job has ended. Most queued attempts are guesses, so a faster pool only admits more of them.
/// Each hash also takes cache and memory bandwidth, which slows message delivery.
const COOL_DOWN_FACTOR: u32 = 2;

impl PasswordHashPool {
    pub fn new(limits: &LimitSettings) -> PasswordHashPool {
        let permits = |setting: usize| if setting == 0 { Semaphore::MAX_PERMITS } else { setting };
        let running = permits(limits.password_checks_at_once);
        let admitted =
            running.saturating_add(permits(limits.password_checks_waiting)).min(Semaphore::MAX_PERMITS);
        PasswordHashPool {
            admitted: Arc::new(Semaphore::new(admitted)),
            running: Arc::new(Semaphore::new(running)),
            last_refusal: Mutex::default(),
            jobs: TaskTracker::new(),
            closing: CancellationToken::new(),
        }
    }

    /// Runs `work` in the pool and returns its result. The work runs to its end even if the caller
    /// drops the future. Returns `overloaded` if the queue is full or the thread cannot start, and
    /// `internal` if `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let admission = Arc::clone(&self.admitted).try_acquire_owned().map_err(|_| {
            *self.last_refusal() = Some(Instant::now());
            Problem::overloaded()
        })?;
        let (slot, priority) = match Arc::clone(&self.running).try_acquire_owned() {
            Ok(slot) => (slot, ThreadPriority::Low),
            Err(_) => {
                let slot = Arc::clone(&self.running).acquire_owned().await;
                (slot.expect("no code closes this semaphore"), ThreadPriority::Idle)
            }
        };
        let is_flood = self.last_refusal().is_some_and(|at| at.elapsed() < FLOOD_WINDOW);
        let (result_sender, result_receiver) = oneshot::channel();
        // A separate task, so that the permits stay taken until the work ends, even if the caller
        // was cancelled.
        let closing = self.closing.clone();
        self.jobs.spawn(async move {
            let _held = (admission, slot);
            let started = Instant::now();
            let done = tokio::task::spawn_blocking(move || run_with_priority(priority, work)).await;
            let cool_down = COOL_DOWN_FACTOR * started.elapsed();
            let _caller_is_gone = result_sender.send(done);
            if is_flood {
                let _ = tokio::time::timeout(cool_down, closing.cancelled()).await;
            }
        });
        let failed = || Problem::new(ErrorCode::Internal, "the server failed");
        let done = result_receiver.await.map_err(|_| failed())?.map_err(|_| failed())?;
        done.map_err(|_| Problem::overloaded())
    }

    /// Waits until the running jobs have ended, without their cool-down pauses. Call it when no
    /// caller waits for a result any more.
    pub async fn close(&self) {
        self.closing.cancel();
        self.jobs.close();
        self.jobs.wait().await;
    }

    fn last_refusal(&self) -> MutexGuard<'_, Option<Instant>> {
        self.last_refusal.lock()
    }
}

/// Scheduling priority of a password thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ThreadPriority {
    /// Raised nice value: the thread still gets a share of a busy processor.
    Low,
    /// Idle policy: the thread runs only when nothing else wants the processor. A job that had to
    /// queue gets it, because a queue may mean a flood.
    Idle,
}

/// Runs `work` on a new low-priority thread and waits for it, so that a flood of log-ins does not
/// delay messages. The kernel does not let an unprivileged thread raise its priority again, so pool
/// threads cannot be reused. Starting a thread costs about a thousandth of the work. Returns an
/// error if the thread cannot start. Propagates a panic of `work`.
fn run_with_priority<T: Send>(
    priority: ThreadPriority,
    work: impl FnOnce() -> T + Send,
) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("password".to_owned());
        let worker = thread.spawn_scoped(scope, || {
            lower_priority(priority);
            work()
        })?;
        Ok(worker.join().unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)))
    })
}

/// Lowers the priority of the calling thread. Linux only: on other systems `nice` applies to the
/// whole process.
#[cfg(target_os = "linux")]
fn lower_priority(priority: ThreadPriority) {
    /// Increment of the nice value. Too small a value lets password hashing compete with message
    /// delivery.
    const NICE_INCREMENT: i32 = 10;
    if let Err(error) = rustix::process::nice(NICE_INCREMENT) {
        tracing::debug!(%error, "password thread keeps the normal priority");
    }
    if priority == ThreadPriority::Idle && !set_idle_policy() {
        tracing::debug!("password thread cannot use the idle scheduling policy");
    }
}

/// Sets the idle scheduling policy for the calling thread and returns whether that succeeded. A
/// thread with only a raised nice value keeps its processor to the end of its time slice, for
/// milliseconds. An idle thread is preempted at once.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no safe API sets the scheduling policy of a thread")]
fn set_idle_policy() -> bool {
    // SAFETY: the call affects only the calling thread, and it reads the parameters before it
    // returns. All-zero bytes are a valid `sched_param`.
    unsafe {
        let parameters: libc::sched_param = std::mem::zeroed();
        libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_IDLE, &raw const parameters) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn lower_priority(_priority: ThreadPriority) {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn password_job_runs_at_low_priority_and_other_threads_do_not() {
        let priority = || rustix::process::getpriority_process(None).unwrap();
        let pool = PasswordHashPool::new(&LimitSettings::default());
        let here = priority();
        assert!(pool.run(priority).await.unwrap() > here.min(18));
        assert_eq!(tokio::task::spawn_blocking(priority).await.unwrap(), here);
        assert_eq!(priority(), here);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn queued_password_job_runs_with_the_idle_policy() {
        // Field 41 of `/proc/thread-self/stat` is the scheduling policy; 5 is `SCHED_IDLE`.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(38).unwrap().to_owned()
        };
        let limits = LimitSettings { password_checks_at_once: 1, ..LimitSettings::default() };
        let pool = PasswordHashPool::new(&limits);
        let (first, second) = tokio::join!(pool.run(policy), pool.run(policy));
        assert_eq!((first.as_deref(), second.as_deref()), (Ok("0"), Ok("5")));
        assert_eq!(tokio::task::spawn_blocking(policy).await.unwrap(), "0");
    }

    #[tokio::test]
    async fn job_is_refused_when_queue_is_full_and_queued_jobs_run() {
        let limits = LimitSettings {
            password_checks_at_once: 1,
            password_checks_waiting: 1,
            ..LimitSettings::default()
        };
        let pool = PasswordHashPool::new(&limits);
        let (release, held) = mpsc::channel::<()>();
        let first = pool.run(move || held.recv().is_ok());
        let second = pool.run(|| true);
        let third = async {
            let last_refusal = pool.run(|| true).await;
            release.send(()).unwrap();
            last_refusal
        };
        let (first, second, third) = tokio::join!(first, second, third);
        assert_eq!((first, second), (Ok(true), Ok(true)));
        assert_eq!(third, Err(Problem::overloaded()));
    }

    #[tokio::test]
    async fn close_waits_for_a_running_job_whose_caller_is_gone() {
        let pool = PasswordHashPool::new(&LimitSettings::default());
        let (release, held) = mpsc::channel::<()>();
        let job = pool.run(move || held.recv().is_ok());
        assert!(tokio::time::timeout(Duration::from_millis(10), job).await.is_err(), "the job is running");
        let mut closed = Box::pin(pool.close());
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut closed).await.is_err());
        release.send(()).unwrap();
        closed.await;
    }

    #[tokio::test]
    async fn pool_pauses_after_each_job_during_a_flood() {
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
        // A stall of the test machine longer than `FLOOD_WINDOW` hides the flood, so the test
        // repeats.
        for _ in 0..5 {
            let pool = PasswordHashPool::new(&limits);
            let (first, second, third, fourth) =
                tokio::join!(pool.run(work), pool.run(work), pool.run(Instant::now), pool.run(work));
            assert!(first.is_ok() && fourth == Err(Problem::overloaded()));
            // The second job runs during the flood, so the third starts only after the cool-down.
            if third.unwrap() >= second.unwrap() + COOL_DOWN_FACTOR * WORK {
                return;
            }
        }
        panic!("the pool never paused");
    }
}
