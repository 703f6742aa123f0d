//! The folder that the library takes for its own when it is part of a program (P1): that of the program's
//! file, whatever the program was told that it is called and wherever it has moved.
//!
//! What lies there is no backend, so it leaves a record of why not: the record says that somebody looked.

mod toolchain;

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use toolchain::Standard;

/// Moves to the folder in its first argument, and prints the path of every file that was looked at.
const SOURCE: &str = r#"
#define _DEFAULT_SOURCE
#include "llaisys.h"
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 1 && chdir(argv[1]) != 0) {
        return 2;
    }
    for (int32_t index = 0; index < llaisysGetCandidateCount(); index++) {
        LlaisysCandidate one = {0};
        one.struct_size = sizeof one;
        if (llaisysGetCandidate(index, &one) == LLAISYS_STATUS_SUCCESS && one.path[0] != '\0') {
            puts(one.path);
        }
    }
    return 0;
}
"#;

static OBJECT: LazyLock<PathBuf> =
    LazyLock::new(|| toolchain::compile_text(Standard::C99, "tell_candidates", SOURCE, &[]));

/// A program in a folder of its own, and a second folder with the same names in it.
struct Scene {
    program: PathBuf,
    home: PathBuf,
    trap: PathBuf,
}

impl Scene {
    fn new(name: &str, program: &Path, library: Option<&Path>) -> Scene {
        let (home, trap) = (
            toolchain::scratch(&format!("{name}_home")),
            toolchain::scratch(&format!("{name}_trap")),
        );
        for folder in [&home, &trap] {
            std::fs::create_dir_all(folder).expect("a scratch folder can be made");
            for file in [Some(program), library].into_iter().flatten() {
                let name = file.file_name().expect("a file has a name");
                std::fs::copy(file, folder.join(name)).expect("a file can be copied");
            }
            let plugin = folder.join("libllaisys_backend_text.so");
            std::fs::write(plugin, "no library").expect("a file can be written");
        }
        Scene { program: home.join(program.file_name().expect("a file has a name")), home, trap }
    }

    /// What is looked at when the program is started in a folder under this name and moves to another one.
    fn expect_home(&self, called: &str, from: &Path, to: &Path, libraries: Option<&str>) {
        let mut command = toolchain::clean(&self.program);
        command.arg0(called).current_dir(from).arg(to);
        if let Some(libraries) = libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        let output = command.output().expect("it runs");
        let found = String::from_utf8(output.stdout).expect("paths here are texts");
        let right = self.home.canonicalize().expect("it is there");
        let right = right.join("libllaisys_backend_text.so");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let story =
            format!("called `{called}` in {} and moved to {}", from.display(), to.display());
        assert_eq!(found.trim_end(), right.to_str().expect("a text"), "{story}");
    }
}

#[test]
fn a_program_with_the_library_inside_knows_its_folder_whatever_it_is_called() {
    let linked = toolchain::link_static(
        Standard::C99,
        std::slice::from_ref(&*OBJECT),
        "with_the_library_inside",
    );
    let scene = Scene::new("inside", &linked, None);
    let (home, trap) = (&scene.home, &scene.trap);
    let lie = trap.join("with_the_library_inside");
    for called in [
        "./with_the_library_inside",
        "with_the_library_inside",
        "../inside_trap/with_the_library_inside",
        lie.to_str().expect("a text"),
        "",
        "/nowhere/at/all",
    ] {
        for (from, to) in [(home, home), (home, trap), (trap, trap), (trap, home)] {
            scene.expect_home(called, from, to, None);
        }
    }
}

#[test]
fn a_program_that_finds_the_library_in_a_relative_folder_has_its_backends_from_there() {
    let linked =
        toolchain::link(Standard::C99, std::slice::from_ref(&*OBJECT), "with_the_library_beside");
    let library = toolchain::library_folder().join("libllaisys_runtime.so");
    let scene = Scene::new("beside", &linked, Some(&library));
    let (home, trap) = (&scene.home, &scene.trap);
    scene.expect_home("./with_the_library_beside", home, trap, Some("."));
    scene.expect_home("with_the_library_beside", trap, trap, Some("../beside_home"));
}
