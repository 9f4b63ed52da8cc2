//! The directories of a private server: who may enter them, and where they are.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Error;
use super::account::Account;
use super::cluster::PORT;
use crate::clock::Entropy;

/// The longest path of a socket that every system takes; the kernel's limit is 104 to 108 bytes.
const LONGEST_SOCKET: usize = 100;
const SHORT_PREFIX: &str = "fairlist-";

/// Whether it is one of those that are made where the usual path is too long.
pub(super) fn is_short(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(SHORT_PREFIX.as_bytes()))
}

fn socket_path(directory: &Path) -> PathBuf {
    directory.join(format!(".s.PGSQL.{PORT}"))
}

/// Where the socket is unless that path is too long.
pub(super) fn usual_socket_directory(data: &Path) -> PathBuf {
    data.join("run")
}

/// Makes the data directory, so that others can do nothing there; its absolute path without symbolic links.
///
/// # Errors
/// When it cannot be made, or something else is there.
pub fn data_directory(asked: &Path) -> Result<PathBuf, Error> {
    let root = nix::unistd::geteuid().is_root();
    // Root's server runs as another user, who has to pass through; nobody can list or read the directory.
    let mode = if root { 0o711 } else { 0o700 };
    let is_new = !asked.exists();
    if !is_new && !asked.is_dir() {
        return Err(Error::NotADirectory(asked.to_owned()));
    }
    if let Some(parent) = asked.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(Error::at(parent))?;
    }
    DirBuilder::new().recursive(true).mode(mode).create(asked).map_err(Error::at(asked))?;
    let data = asked.canonicalize().map_err(Error::at(asked))?;
    if root {
        let found = data.metadata().map_err(Error::at(&data))?;
        let ours = is_new
            || data.join("locks").is_dir()
            || fs::read_dir(&data).map_err(Error::at(&data))?.next().is_none();
        if ours && found.uid() == 0 && found.mode() & 0o001 == 0 {
            let mode = found.permissions().mode() | 0o011;
            fs::set_permissions(&data, Permissions::from_mode(mode)).map_err(Error::at(&data))?;
        }
    }
    Ok(data)
}

/// A directory that only the server's user, and root, can enter: in the data directory, or where that path
/// does not do for a socket, a short one for temporary files.
pub(super) fn socket_directory(
    data: &Path,
    account: &Account,
    previous: Option<&Path>,
) -> Result<PathBuf, Error> {
    let usual = usual_socket_directory(data);
    // A comma separates the hosts that psql is to try.
    let fits = |directory: &Path| {
        let path = socket_path(directory);
        path.as_os_str().len() <= LONGEST_SOCKET && !path.as_os_str().as_encoded_bytes().contains(&b',')
    };
    if fits(&usual) {
        if !usual.exists() {
            DirBuilder::new().mode(0o700).create(&usual).map_err(Error::at(&usual))?;
        }
        account.own(&usual)?;
        return Ok(usual);
    }
    // The one of a server that was killed, so that they do not pile up and pools find it again.
    if let Some(previous) = previous.filter(|previous| is_short(previous) && account.keeps_private(previous))
    {
        return Ok(previous.to_owned());
    }
    let mut parents = vec![PathBuf::from("/tmp")];
    if !account.drops() {
        // Our own first; the server's user, where that is another, could not enter them.
        parents.insert(0, std::env::temp_dir());
        parents.splice(0..0, std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    }
    let name = format!("{SHORT_PREFIX}{}", hex::encode(&Entropy.bytes()[..6]));
    let mut refused = None;
    for parent in parents {
        let short = parent.join(&name);
        if !parent.is_absolute() || !fits(&short) {
            continue;
        }
        // Fails if it exists, so that nobody can have prepared it.
        match DirBuilder::new().mode(0o700).create(&short) {
            Ok(()) => {
                account.own(&short)?;
                return Ok(short);
            }
            Err(problem) => refused = Some(Error::Io { path: short, source: problem }),
        }
    }
    Err(refused.unwrap_or_else(|| Error::Io {
        path: usual,
        source: std::io::Error::other("the path is too long for a socket, and there is no shorter place"),
    }))
}
