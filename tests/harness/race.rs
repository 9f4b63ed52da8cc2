//! Many doing the same at once.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// Starts `n` of what `act` makes, all at the same moment, and tells what came of each, in their order.
pub async fn race<T, F>(n: usize, act: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(n));
    let mut racers = JoinSet::new();
    for i in 0..n {
        let (act, barrier) = (act(i), Arc::clone(&barrier));
        racers.spawn(async move {
            barrier.wait().await;
            (i, act.await)
        });
    }
    let mut ends = racers.join_all().await;
    ends.sort_by_key(|(i, _)| *i);
    ends.into_iter().map(|(_, end)| end).collect()
}
