//! What a run is about: a plugin's file or a backend's name, and which library serves it.

use crate::case::Mode;
use std::path::{Path, PathBuf};

/// The library's file name.
const LIBRARY: &str = "libllaisys_runtime.so";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A file, by its real path.
    File(PathBuf),
    /// A name (cpu, nvidia, …) or the number of a device type.
    Backend(String),
}

impl Target {
    /// Reads the argument: what has a slash, or the ending of a shared library, is a file.
    ///
    /// # Errors
    /// Why the file is not there.
    pub fn read(word: &str) -> Result<Target, String> {
        let path = Path::new(word);
        if !word.contains('/') && path.extension().is_none_or(|ending| ending != "so") {
            return Ok(Target::Backend(word.to_owned()));
        }
        let real = path.canonicalize().map_err(|error| format!("{word}: {error}"))?;
        if !real.is_file() {
            return Err(format!("{word}: not a file"));
        }
        Ok(Target::File(real))
    }
}

/// The library to test over: the one that was named, or that beside this program.
///
/// # Errors
/// Where it was looked for.
pub fn library(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find_map(|path| path.canonicalize().ok());
    found.ok_or_else(|| {
        let tried: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        format!(
            "there is no {LIBRARY} at {}; build it (cargo build --release) or name it with --library",
            tried.join(" or ")
        )
    })
}

/// The modes of a run: what was asked for, or every mode that the target can be asked in.
///
/// # Errors
/// That a backend without a file of its own cannot be asked alone.
pub fn modes(asked: &[Mode], backend: &str, file: Option<&Path>) -> Result<Vec<Mode>, String> {
    match (asked, file) {
        ([], Some(_)) => Ok(Mode::ALL.to_vec()),
        ([], None) => Ok(vec![Mode::Core]),
        (asked, None) if asked.contains(&Mode::Raw) => Err(format!(
            "`{backend}` is built into the library: there is no plugin file to ask with --mode raw"
        )),
        (asked, _) => Ok(asked.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_backend_and_what_looks_like_a_file_must_be_one() {
        assert_eq!(Target::read("cpu"), Ok(Target::Backend("cpu".to_owned())));
        assert!(Target::read("nowhere.so").is_err_and(|said| said.contains("No such file")));
        assert!(Target::read("/").is_err_and(|said| said.contains("not a file")));
        assert!(matches!(Target::read("/proc/self/exe"), Ok(Target::File(_))));
    }

    #[test]
    fn a_plugin_is_asked_in_both_modes_and_a_built_in_backend_in_one() {
        let file = Path::new("/some/plugin.so");
        assert_eq!(modes(&[], "p", Some(file)), Ok(Mode::ALL.to_vec()));
        assert_eq!(modes(&[], "cpu", None), Ok(vec![Mode::Core]));
        assert!(modes(&[Mode::Raw], "cpu", None).is_err_and(|said| said.contains("built into")));
    }
}
