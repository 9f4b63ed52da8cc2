//! Points at which a test kills the program. Without the feature `testing`, which release builds lack, they are
//! nothing.

/// Comes to a point. The names: `commit.before` and `commit.after` of a transaction under an event's lock;
/// `message.claimed`, `message.sent` and `message.noted` of a message's delivery; `feed.written` and `feed.committed` of what
/// is copied into a feed;
/// `webhook.claimed` and `webhook.sent` of a delivery to a webhook; `booking.call` and `booking.called` of a question to a
/// booking service.
#[inline]
pub(crate) fn reach(point: &str) {
    #[cfg(feature = "testing")]
    fail::fail_point!(point);
    #[cfg(not(feature = "testing"))]
    let _ = point;
}

/// Reads from `FAIRLIST_KILL_AT` where to die: `message.sent`, or `commit.after:3` for the third time. A process
/// that dies so has no chance to tidy up: SIGKILL, as the machine's out-of-memory killer would.
#[cfg(feature = "testing")]
pub(crate) fn begin() {
    use std::sync::atomic::{AtomicU32, Ordering};

    let Ok(wanted) = std::env::var("FAIRLIST_KILL_AT") else { return };
    let (point, nth) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    let left = AtomicU32::new(nth.parse().unwrap_or(1));
    let set = fail::cfg_callback(point, move || {
        if left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL);
        }
    });
    if let Err(problem) = set {
        tracing::error!("FAIRLIST_KILL_AT: {problem}");
    }
}
