//! Whom the server runs as. Postgres refuses root, so root hands it to an unprivileged user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User, geteuid};

use super::Error;

/// The users that root hands the server to, the better one first.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

/// A user of this machine, and whether we have to become it.
#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) name: String,
    uid: u32,
    gid: u32,
    /// We are root and hand over to this user.
    drops: bool,
}

impl Account {
    /// Ourselves, unless we are root: then whoever owns the cluster already, else `postgres`, else `nobody`.
    pub(super) fn choose(cluster: &Path) -> Result<Self, Error> {
        let me = geteuid();
        if !me.is_root() {
            return Ok(Self::of(&find(me), false));
        }
        let owner = fs::symlink_metadata(cluster).ok().map(|found| Uid::from_raw(found.uid()));
        if let Some(owner) = owner.filter(|owner| !owner.is_root()) {
            return Ok(Self::of(&find(owner), true));
        }
        UNPRIVILEGED
            .iter()
            .find_map(|name| User::from_name(name).ok().flatten())
            .map(|user| Self::of(&Found { name: user.name, uid: user.uid, gid: user.gid.as_raw() }, true))
            .ok_or(Error::NoAccount)
    }

    fn of(found: &Found, drops: bool) -> Self {
        Self { name: found.name.clone(), uid: found.uid.as_raw(), gid: found.gid, drops }
    }

    /// A command that runs as this user, in its own process group (so that Ctrl-C in the terminal reaches us
    /// alone), in `/` (which everybody may enter), and deaf to the libpq settings of whoever started us.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").process_group(0).stdin(Stdio::null()).env("LC_ALL", "C");
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        if self.drops {
            // Also gives up root's supplementary groups.
            command.uid(self.uid).gid(self.gid).env("HOME", "/");
        }
        command
    }

    /// Whether we hand the server to somebody else.
    pub(super) fn drops(&self) -> bool {
        self.drops
    }

    /// Gives this user a directory that is root's, with everything in it. One that has an owner keeps it: in
    /// there, root does not follow what somebody else may have put.
    pub(super) fn own(&self, path: &Path) -> Result<(), Error> {
        if !self.drops || fs::symlink_metadata(path).map_err(Error::at(path))?.uid() != 0 {
            return Ok(());
        }
        self.own_tree(path)
    }

    fn own_tree(&self, path: &Path) -> Result<(), Error> {
        if fs::symlink_metadata(path).map_err(Error::at(path))?.is_dir() {
            for entry in fs::read_dir(path).map_err(Error::at(path))? {
                self.own_tree(&entry.map_err(Error::at(path))?.path())?;
            }
        }
        lchown(path, Some(self.uid), Some(self.gid)).map_err(Error::at(path))
    }

    /// Whether this user owns the directory at `path` and nobody else may enter it (its mode ends in 00).
    pub(super) fn keeps_private(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && found.uid() == self.uid && found.mode().trailing_zeros() >= 6
        })
    }

    /// Finds the first directory on the way to `directory` that this user cannot pass.
    ///
    /// Asked of the kernel by letting a child of that user go there, because access lists and read-only mounts
    /// do not show in a mode. `program` is any program; it is only asked for its version.
    pub(super) fn reach(&self, directory: &Path, program: &Path) -> Result<(), Error> {
        if !self.drops {
            return Ok(());
        }
        if !self.can_run(program, Path::new("/")) {
            return Err(Error::ProgramBarred { program: program.to_owned(), user: self.name.clone() });
        }
        if self.can_run(program, directory) {
            return Ok(());
        }
        let mut way: Vec<&Path> = directory.ancestors().collect();
        way.reverse();
        let bars = way.into_iter().find(|step| !self.can_run(program, step)).unwrap_or(directory);
        Err(Error::Barred { directory: bars.to_owned(), user: self.name.clone() })
    }

    fn can_run(&self, program: &Path, directory: &Path) -> bool {
        self.command(program)
            .arg("--version")
            .current_dir(directory)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    /// The users who may connect: this one, and we ourselves.
    pub(super) fn users(&self) -> Vec<String> {
        let me = find(geteuid()).name;
        if me == self.name { vec![me] } else { vec![me, self.name.clone()] }
    }
}

struct Found {
    name: String,
    uid: Uid,
    gid: u32,
}

/// A user by number; one without an entry goes by the number, and initdb will say what it thinks of that.
fn find(uid: Uid) -> Found {
    match User::from_uid(uid) {
        Ok(Some(user)) => Found { name: user.name, uid, gid: user.gid.as_raw() },
        _ => Found { name: uid.to_string(), uid, gid: nix::unistd::getegid().as_raw() },
    }
}
