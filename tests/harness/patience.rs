//! Waiting for what only the database can tell.

use std::time::{Duration, Instant};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Looks again and again until `is_so`; how long that took. Fails with `what` after `at_most`.
pub async fn until(what: &str, at_most: Duration, is_so: impl AsyncFn() -> bool) -> Duration {
    let since = Instant::now();
    let mut looks = tokio::time::interval(LOOK);
    loop {
        looks.tick().await;
        if is_so().await {
            return since.elapsed();
        }
        assert!(since.elapsed() < at_most, "not within {at_most:?}: {what}");
    }
}
