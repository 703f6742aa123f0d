//! The SHA-256 of a file, so that a report says which file it is about.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

/// The hash of a file's content, in hexadecimal digits.
///
/// # Errors
/// Why the file cannot be read.
pub fn of_file(path: &Path) -> Result<String, String> {
    let content = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = String::new();
    for byte in Sha256::digest(&content) {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hash_of_the_content() {
        let path = std::env::temp_dir().join(format!("llaisys-sha256-{}", std::process::id()));
        std::fs::write(&path, "abc").expect("a file of our own");
        let found = of_file(&path);
        let _ = std::fs::remove_file(&path);
        // The first example of FIPS 180-4.
        let right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(found.as_deref(), Ok(right));
        assert!(of_file(&path).is_err());
    }
}
