//! Which folder the library takes for its own (P1): that of the file that the system loaded, whatever name
//! it was opened by and wherever the process is by then.

use crate::case::Area;
use crate::context::Context;
use crate::library::Library;
use crate::outcome::{Checked, Stop};
use crate::plugin_file::{Survey, Workshop};
use crate::program::Bare;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

cases! { Area::Plugins;
    "P1" opened_by_a_relative_path_the_library_knows_its_folder [Compiler];
    "P1" found_by_the_systems_search_the_library_knows_its_folder [Compiler];
    "P1" a_library_whose_file_is_gone_has_no_folder [Compiler];
}

programs![open_and_move];

/// Opens the library by the name in the first argument, moves to the folder in the second one, removes what
/// the third one names, and prints the candidates as a survey does.
fn open_and_move(bare: &Bare) -> Checked<i32> {
    let library = Library::open(Path::new(bare.argument(0)?)).map_err(Stop::fail)?;
    let there = bare.argument(1)?;
    std::env::set_current_dir(there).map_err(|error| Stop::skip(format!("{there}: {error}")))?;
    if let Ok(name) = bare.argument(2) {
        std::fs::remove_file(name).map_err(|error| Stop::skip(format!("{name}: {error}")))?;
    }
    let found = library.candidates().map_err(Stop::fail)?;
    let records: Vec<Value> =
        found.iter().map(|one| json!({ "path": one.path, "name": one.name })).collect();
    println!("{}", json!([records]));
    Ok(0)
}

/// The library with a plugin beside it, and a trap: a folder that has the same names.
struct Scene {
    shop: Workshop,
    home: PathBuf,
    trap: PathBuf,
}

impl Scene {
    fn new(context: &'static Context) -> Checked<Scene> {
        let shop = Workshop::new(context)?;
        let (home, trap) = (shop.folder.folder("own")?, shop.folder.folder("trap")?);
        for folder in ["own", "trap"] {
            let library = format!("{folder}/libllaisys_runtime.so");
            shop.folder.copy(&context.setup.library, &library)?;
            let name = format!("NAME=\"{folder}\"");
            shop.plugin(&format!("{folder}/libllaisys_backend_{folder}.so"), &[&name])?;
        }
        Ok(Scene { shop, home, trap })
    }

    /// The names of the backends that are found when the library was opened by `name` in `from` and the
    /// process has moved to the trap since.
    fn names(&self, from: &Path, name: &str, remove: Option<&Path>) -> Checked<Vec<String>> {
        let launch = self.shop.launch("open_and_move").in_folder(from).argument(name);
        let launch = launch.argument(&self.trap).env("LD_LIBRARY_PATH", ".");
        let launch = remove.into_iter().fold(launch, |launch, path| launch.argument(path));
        let survey = Survey::read(launch.run()?)?;
        let records = survey.candidates(0)?;
        Ok(records.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect())
    }
}

fn opened_by_a_relative_path_the_library_knows_its_folder(context: &'static Context) -> Checked {
    let scene = Scene::new(context)?;
    let above = scene.shop.folder.path();
    for (from, name) in [
        (scene.home.as_path(), "./libllaisys_runtime.so"),
        (scene.home.as_path(), "../own/libllaisys_runtime.so"),
        (scene.trap.as_path(), "../own/libllaisys_runtime.so"),
        (above, "own/libllaisys_runtime.so"),
        (above, "trap/../own/./libllaisys_runtime.so"),
    ] {
        let found = scene.names(from, name, None)?;
        let what = format!("opened as {name} in {}", from.display());
        ensure_eq!(found, ["own"], "the backends of the library that was {what}");
    }
    Ok(())
}

fn found_by_the_systems_search_the_library_knows_its_folder(context: &'static Context) -> Checked {
    let scene = Scene::new(context)?;
    // The search path of the process has a relative folder, so the system's name of the file has too.
    let found = scene.names(&scene.home, "libllaisys_runtime.so", None)?;
    ensure_eq!(found, ["own"], "the backends of the library that the system found");
    Ok(())
}

fn a_library_whose_file_is_gone_has_no_folder(context: &'static Context) -> Checked {
    let scene = Scene::new(context)?;
    let file = scene.home.join("libllaisys_runtime.so");
    let found = scene.names(&scene.home, "./libllaisys_runtime.so", Some(&file))?;
    ensure_eq!(found, [""; 0], "the backends of a library whose file was removed");
    Ok(())
}
