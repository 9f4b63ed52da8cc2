//! Which programs of Postgres are used: the newest that this machine has, or those that made the cluster.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Error, OLDEST_MAJOR, Settings, download};

/// The programs of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The directory that holds `postgres` and `initdb`.
    pub directory: PathBuf,
    /// Major and minor version.
    pub version: (u32, u32),
}

impl Binaries {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Asks the `postgres` in a directory for its version.
    pub(super) fn look(directory: &Path) -> Result<Self, String> {
        for program in ["postgres", "initdb"] {
            if !directory.join(program).is_file() {
                return Err(format!("there is no {program} in it"));
            }
        }
        let answer = Command::new(directory.join("postgres"))
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|problem| format!("its postgres does not run ({problem})"))?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let version = parse_version(&text).ok_or("its postgres does not tell its version")?;
        if version.0 < OLDEST_MAJOR {
            return Err(format!("it is version {}.{}", version.0, version.1));
        }
        Ok(Self { directory: directory.to_owned(), version })
    }
}

/// `postgres (PostgreSQL) 15.20 (Debian …)` → (15, 20); betas (`18beta1`) count as minor version 0.
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let text = text.split("(PostgreSQL) ").nth(1)?;
    let mut parts = text.split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    Some((major, parts.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

/// The directories that may hold the programs, in order: those that `PATH` names, the distribution's,
/// Homebrew's, and what was downloaded earlier.
fn places(path: Option<&OsStr>, root: &Path, data: &Path) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = path
        .map(|path| std::env::split_paths(path).filter(|place| place.is_absolute()).collect())
        .unwrap_or_default();
    // Debian and Ubuntu; the PostgreSQL project's own packages for Fedora and its relatives.
    places.extend(children(&root.join("usr/lib/postgresql"), "", "bin"));
    places.extend(children(&root.join("usr"), "pgsql-", "bin"));
    // Homebrew on Apple silicon, on Intel, and on Linux: `opt/postgresql@17` is a link to the version in use.
    for prefix in ["opt/homebrew", "usr/local", "home/linuxbrew/.linuxbrew"] {
        places.extend(children(&root.join(prefix).join("opt"), "postgresql", "bin"));
    }
    places.extend(children(&download::directory(data), "", "bin"));
    places
}

/// `directory/{prefix}*/below`, sorted, as far as they exist.
fn children(directory: &Path, prefix: &str, below: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()))
        .map(|entry| entry.path().join(below))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// What of Postgres is installed, best first: the newest; among equals the earlier place.
fn installed(data: &Path) -> Vec<Binaries> {
    let mut found: Vec<Binaries> = places(std::env::var_os("PATH").as_deref(), Path::new("/"), data)
        .iter()
        .filter_map(|place| Binaries::look(place).ok())
        .collect();
    found.sort_by_key(|binaries| Reverse(binaries.version));
    found
}

fn named(settings: &Settings) -> Result<Option<Binaries>, Error> {
    let Some(directory) = &settings.binaries else { return Ok(None) };
    // The server runs in another directory than we do.
    let directory = std::path::absolute(directory).map_err(Error::at(directory))?;
    Binaries::look(&directory).map(Some).map_err(|reason| Error::NotBinaries { directory, reason })
}

/// Finds the programs: for an existing cluster those of its major version, else the newest; where there are none
/// at all, downloads them.
pub(super) async fn find(settings: &Settings, cluster: Option<u32>, data: &Path) -> Result<Binaries, Error> {
    let found = match named(settings)? {
        Some(binaries) => vec![binaries],
        None => installed(data),
    };
    if found.is_empty() {
        return download::download(data, cluster).await;
    }
    choose(&found, cluster).cloned().ok_or_else(|| Error::OtherMajor {
        data: data.join("postgres"),
        cluster: cluster.unwrap_or_default(),
        found,
    })
}

fn choose(found: &[Binaries], cluster: Option<u32>) -> Option<&Binaries> {
    found.iter().find(|binaries| cluster.is_none_or(|major| binaries.version.0 == major))
}

/// A client program such as `psql`. Debian has them in their own package, so that the server's directory is not
/// the only place to look.
pub(super) fn client(settings: &Settings, name: &str) -> Result<PathBuf, Error> {
    let on_path = || {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|place| place.join(name)).find(|program| program.is_file())
    };
    named(settings)?
        .into_iter()
        .chain(installed(&settings.data))
        .map(|binaries| binaries.program(name))
        .find(|program| program.is_file())
        .or_else(on_path)
        .ok_or_else(|| Error::Io {
            path: PathBuf::from(name),
            source: std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "not found; it comes with PostgreSQL (Debian: postgresql-client, Fedora: postgresql, macOS: brew install libpq)",
            ),
        })
}

/// The sentence for a cluster that none of the installed programs may touch.
pub(super) fn other_major(data: &Path, cluster: u32, found: &[Binaries]) -> String {
    let found: Vec<String> = found
        .iter()
        .map(|binaries| {
            format!("{}.{} in {}", binaries.version.0, binaries.version.1, binaries.directory.display())
        })
        .collect();
    let advice = if cluster < OLDEST_MAJOR {
        format!(
            "Fairlist needs PostgreSQL {OLDEST_MAJOR} or later: dump the data with version {cluster} and load them into a newer one"
        )
    } else {
        format!(
            "Install PostgreSQL {cluster} (Debian: postgresql-{cluster}) or name its programs with --postgres-bin"
        )
    };
    format!(
        "the data in {} were made by PostgreSQL {cluster}, and only that version may open them; here is {}. They were left untouched. {advice}, or begin with an empty directory by --data",
        data.display(),
        found.join(", ")
    )
}

/// Makes what root downloaded readable and runnable for everybody, whatever root's umask says.
pub(super) fn open_to_all(directory: &Path) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    for entry in fs::read_dir(directory).map_err(Error::at(directory))? {
        let entry = entry.map_err(Error::at(directory))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_to_all(&entry.path())?;
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).map_err(Error::at(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binaries(place: &str, version: (u32, u32)) -> Binaries {
        Binaries { directory: place.into(), version }
    }

    #[test]
    fn versions_are_read_as_postgres_prints_them() {
        assert_eq!(parse_version("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n"), Some((15, 20)));
        assert_eq!(parse_version("postgres (PostgreSQL) 17.2\n"), Some((17, 2)));
        assert_eq!(parse_version("postgres (PostgreSQL) 19beta1\n"), Some((19, 0)));
        assert_eq!(parse_version("postgres (PostgreSQL) 18devel\n"), Some((18, 0)));
        assert_eq!(parse_version("something else\n"), None);
    }

    #[test]
    fn the_path_comes_first_then_the_distribution_then_homebrew_then_downloads() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        let made = [
            "usr/lib/postgresql/15/bin",
            "usr/lib/postgresql/16/bin",
            "usr/pgsql-17/bin",
            "opt/homebrew/opt/postgresql@17/bin",
            "usr/local/opt/postgresql@16/bin",
            "home/linuxbrew/.linuxbrew/opt/postgresql/bin",
            "data/postgresql/18.1.0/bin",
        ];
        for place in made {
            fs::create_dir_all(root.path().join(place)).unwrap();
        }
        // Neither a Postgres nor a directory with programs.
        fs::create_dir_all(root.path().join("opt/homebrew/opt/redis/bin")).unwrap();
        fs::create_dir_all(root.path().join("usr/lib/postgresql/13")).unwrap();

        let found = places(Some(OsStr::new("/first/bin:relative:/second/bin")), root.path(), &data);

        let mut expected = vec![PathBuf::from("/first/bin"), PathBuf::from("/second/bin")];
        expected.extend(made.iter().map(|place| root.path().join(place)));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_new_cluster_takes_the_newest_and_an_old_one_its_own() {
        let found = [binaries("/a", (17, 2)), binaries("/b", (16, 4)), binaries("/c", (15, 20))];
        assert_eq!(choose(&found, None), Some(&found[0]));
        assert_eq!(choose(&found, Some(16)), Some(&found[1]));
        assert_eq!(choose(&found, Some(14)), None);
    }

    #[test]
    fn another_major_version_is_told_with_the_way_out() {
        let sentence = other_major(Path::new("/d/postgres"), 16, &[binaries("/b", (15, 20))]);
        assert!(sentence.contains("made by PostgreSQL 16"), "{sentence}");
        assert!(sentence.contains("15.20 in /b"), "{sentence}");
        assert!(sentence.contains("postgresql-16"), "{sentence}");
        let sentence = other_major(Path::new("/d/postgres"), 13, &[binaries("/b", (15, 20))]);
        assert!(sentence.contains("needs PostgreSQL 15 or later"), "{sentence}");
    }
}
