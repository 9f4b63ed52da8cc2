//! One running server process, and the file by which it is found.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::Child;

/// How often we look whether a server that is not our child still runs.
const POLL: Duration = Duration::from_millis(100);

/// What `postmaster.pid` says. It outlives a server that was killed, and a reboot, after which its number may be
/// somebody else's.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PidFile {
    Missing,
    /// Empty or garbled: the disk was full or the machine went down while it was written.
    Unreadable,
    Found {
        pid: i32,
        /// Absent in the first moments of a server.
        socket_directory: Option<PathBuf>,
        status: Status,
    },
}

/// How far a server is, by its own word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Starting,
    Ready,
    Stopping,
}

impl PidFile {
    pub(super) fn path(cluster: &Path) -> PathBuf {
        cluster.join("postmaster.pid")
    }

    pub(super) fn read(cluster: &Path) -> io::Result<Self> {
        match fs::read_to_string(Self::path(cluster)) {
            Ok(text) => Ok(Self::parse(&text)),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(Self::Missing),
            Err(problem) if problem.kind() == io::ErrorKind::InvalidData => Ok(Self::Unreadable),
            Err(problem) => Err(problem),
        }
    }

    /// Lines: process, data directory, start, port, socket directory, listen address, shared memory, status.
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let Some(pid) = lines.next().and_then(|line| line.trim().parse().ok()).filter(|pid| *pid > 1) else {
            return Self::Unreadable;
        };
        let socket_directory = lines.nth(3).filter(|line| line.starts_with('/')).map(PathBuf::from);
        // After the socket directory come the listen address and the shared memory.
        let status = match lines.nth(2).map(str::trim) {
            Some("ready") => Status::Ready,
            Some("stopping") => Status::Stopping,
            _ => Status::Starting,
        };
        Self::Found { pid, socket_directory, status }
    }

    /// The server that it tells of, if that runs.
    pub(super) fn running(&self, cluster: &Path) -> Option<Pid> {
        match self {
            Self::Found { pid, .. } if is_server(*pid, cluster) => Some(Pid::from_raw(*pid)),
            _ => None,
        }
    }
}

/// Whether `pid` is a living server of this very cluster, and not a process that got its number later.
fn is_server(pid: i32, cluster: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if Path::new("/proc/self").exists() {
        // A server works inside its data directory. A zombie has no directory any more.
        return match fs::read_link(process.join("cwd")) {
            Ok(directory) => directory == cluster,
            Err(problem) if problem.kind() == io::ErrorKind::PermissionDenied => {
                fs::read(process.join("cmdline"))
                    .is_ok_and(|line| serves(&String::from_utf8_lossy(&line), cluster))
            }
            Err(_) => false,
        };
    }
    Command::new("ps")
        .args(["-ww", "-o", "command=", "-p", &pid.to_string()])
        .output()
        .is_ok_and(|answer| serves(&String::from_utf8_lossy(&answer.stdout), cluster))
}

fn serves(command_line: &str, cluster: &Path) -> bool {
    command_line.contains("postgres") && command_line.contains(&*cluster.to_string_lossy())
}

/// A running server: our child, or one that a killed program left behind.
#[derive(Debug)]
pub(super) struct Postmaster {
    pid: Pid,
    child: Option<Child>,
    cluster: PathBuf,
}

impl Postmaster {
    pub(super) fn adopted(pid: Pid, cluster: &Path) -> Self {
        Self { pid, child: None, cluster: cluster.to_owned() }
    }

    pub(super) fn started(child: Child, cluster: &Path) -> Self {
        // Process numbers fit, and a child that was not waited for has one.
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        Self { pid: Pid::from_raw(pid), child: Some(child), cluster: cluster.to_owned() }
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Waits for its end and says how it ended. Cancel safe.
    pub(super) async fn exited(&mut self) -> String {
        if let Some(child) = &mut self.child {
            return match child.wait().await {
                Ok(status) => status.to_string(),
                Err(problem) => problem.to_string(),
            };
        }
        while is_server(self.pid.as_raw(), &self.cluster) {
            tokio::time::sleep(POLL).await;
        }
        "it is gone".to_owned()
    }

    /// Whether it has ended.
    pub(super) fn has_exited(&mut self) -> bool {
        match &mut self.child {
            Some(child) => !matches!(child.try_wait(), Ok(None)),
            None => !is_server(self.pid.as_raw(), &self.cluster),
        }
    }

    /// `SIGINT`: disconnect everybody, write everything, end. `SIGQUIT`: end now, recover at the next start.
    pub(super) fn signal(&mut self, signal: Signal) {
        if !self.has_exited() && self.pid.as_raw() > 1 {
            // It may end in between; then there is nothing to signal.
            let _ = kill(self.pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_postgres_writes_it() {
        let text = "4711\n/data/postgres\n1796000000\n5432\n/tmp/fairlist-1\n\n  5\nready   \n";
        assert_eq!(
            PidFile::parse(text),
            PidFile::Found {
                pid: 4711,
                socket_directory: Some("/tmp/fairlist-1".into()),
                status: Status::Ready
            }
        );
        assert_eq!(
            PidFile::parse("4711\n/data\n"),
            PidFile::Found { pid: 4711, socket_directory: None, status: Status::Starting }
        );
    }

    #[test]
    fn half_a_file_is_no_server() {
        for text in ["", "\n", "garbage\n", "0\n", "1\n", "-5\n/data\n"] {
            assert_eq!(PidFile::parse(text), PidFile::Unreadable, "{text:?}");
        }
    }

    #[test]
    fn a_process_that_works_elsewhere_is_not_the_server() {
        let elsewhere = tempfile::tempdir().unwrap();
        let ourselves = i32::try_from(std::process::id()).unwrap();
        assert!(!is_server(ourselves, elsewhere.path()));
        assert!(!is_server(i32::MAX, elsewhere.path()));
    }
}
