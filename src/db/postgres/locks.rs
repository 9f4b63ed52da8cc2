//! Who uses the data directory, told by locks that the kernel frees when their holder dies.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::Error;

/// How long others may take to start or stop the server; recovering after a crash is not done behind the gate
/// of somebody who waits, but of whoever started it.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(25);

/// The locks of one data directory, as held by this process.
#[derive(Debug)]
pub(super) struct Locks {
    data: PathBuf,
    directory: PathBuf,
    users: File,
    server: Option<File>,
}

/// While this lives, nobody else looks for, starts or stops the server.
#[derive(Debug)]
pub(super) struct Gate(#[expect(dead_code, reason = "held, not read")] File);

impl Locks {
    /// Opens the locks; holds none yet.
    pub(super) fn open(data: &Path) -> Result<Self, Error> {
        let directory = data.join("locks");
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(Error::at(&directory))?;
        let users = open(&directory.join("users"))?;
        Ok(Self { data: data.to_owned(), directory, users, server: None })
    }

    /// Claims the data for this server.
    pub(super) fn claim(&mut self) -> Result<(), Error> {
        let path = self.directory.join("server");
        let mut file = open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                return Err(Error::Taken { data: self.data.clone(), pid });
            }
            Err(TryLockError::Error(problem)) => return Err(Error::at(&path)(problem)),
        }
        // Only for the sentence that refuses the second server; the lock itself decides.
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(Error::at(&path))?;
        self.server = Some(file);
        Ok(())
    }

    /// Waits until nobody else is starting or stopping the server.
    pub(super) async fn gate(&self) -> Result<Gate, Error> {
        let path = self.directory.join("gate");
        let file = open(&path)?;
        let since = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Gate(file)),
                Err(TryLockError::WouldBlock) if since.elapsed() > PATIENCE => {
                    return Err(Error::Busy(self.data.clone()));
                }
                Err(TryLockError::WouldBlock) => tokio::time::sleep(POLL).await,
                Err(TryLockError::Error(problem)) => return Err(Error::at(&path)(problem)),
            }
        }
    }

    /// Becomes a user of the server. Only behind the gate: then nobody holds this lock alone.
    pub(super) fn join(&self) -> Result<(), Error> {
        self.users.lock_shared().map_err(Error::at(&self.directory))
    }

    /// Stops being a user; true when nobody else is one, and then nobody can become one while `self` lives.
    pub(super) fn leave_as_last(&self) -> Result<bool, Error> {
        self.users.unlock().map_err(Error::at(&self.directory))?;
        match self.users.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(problem)) => Err(Error::at(&self.directory)(problem)),
        }
    }
}

fn open(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(Error::at(path))
}
